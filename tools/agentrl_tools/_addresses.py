"""Addresses of the public internet, told from all others.

In    an IP address, or the host of a URL
Out   why it may not be reached, or nothing
Not   a firewall: a public address may still be one's own
"""

from __future__ import annotations

import ipaddress
import re

_SPECIAL = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "a provider's inner network",
    "127.0.0.0/8": "this machine",
    "169.254.0.0/16": "the local link, where cloud machines keep their secrets",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "set aside",
    "192.0.2.0/24": "set aside for examples",
    "192.88.99.0/24": "a relay to another network",
    "192.168.0.0/16": "a private network",
    "198.18.0.0/15": "set aside for measurements",
    "198.51.100.0/24": "set aside for examples",
    "203.0.113.0/24": "set aside for examples",
    "224.0.0.0/4": "a group of machines",
    "240.0.0.0/4": "set aside",
    # IPv6: what is not in 2000::/3 never is public; these are inside it.
    "2001::/23": "a tunnel, or set aside",
    "2001:db8::/32": "set aside for examples",
    "2002::/16": "a tunnel to an address of the old kind",
    "3fff::/20": "set aside for examples",
}
_TABLE = [(ipaddress.ip_network(network), why) for network, why in _SPECIAL.items()]
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.IGNORECASE)
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE)


def address_objection(text: str) -> str:
    """Why an IP address is not one of the public internet; empty where it is.

    An address that holds another one, as IPv4-mapped and NAT64 ones do, is never public.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "no address"
    for network, why in _TABLE:
        if address.version == network.version and address in network:
            return why
    if address.version == 6 and address not in _PUBLIC_IPV6:
        return "not of the public internet"
    return "" if address.is_global else "set aside"


def host_objection(host: str) -> str:
    """Why the host of a URL cannot be used, whatever it stands for; empty where it can.

    Numbers are read in several ways, as decimal, octal or hexadecimal, with parts left out: only
    the one spelling that everybody reads alike is let through.
    """
    if _is_address(host):
        return ""
    if not host or len(host) > 253 or not _NAME.fullmatch(host):
        return "it is no host name"
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return "it is an address in an odd spelling; write four numbers with dots, without zeros"
    return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # a zone names a card of this machine
