"""Engines: what runs a policy's tokens. Importing this package imports none of them."""
