"""A help desk with ten well-described tools: the shape of environments whose prompt is long.

A policy reads the same schemas at the head of every trajectory. This environment is for counting
and clocks; its tools answer with a line and its reward is drawn by lot.
"""

from agentrl.env import ToolEnv
from agentrl.task import ListTasks, Task, TaskSource
from agentrl.tooling import tool
from agentrl.trajectory import Trajectory

REQUESTS = (
    "Order 48213 has not arrived. Find out where it is and tell the customer what happens next.",
    "The customer on account 7719 was charged twice in March. Put it right and explain it.",
    "Move the appointment of ticket 2204 to the first free morning after the 12th.",
    "Is the 40 cm lamp in stock anywhere within 30 km of the customer on account 5120?",
)


class ManyTools(ToolEnv):
    """A help desk for a shop with warehouses, accounts, tickets and appointments."""

    max_turns = 12
    system_prompt = (
        "You work at the help desk of a shop. Settle the request with the tools, and change "
        "nothing that was not asked for. Look things up before you act. When a tool reports an "
        "error, read it and try again with other arguments; after two failures hand over to a "
        "colleague. End with a short message to the customer that says what was done."
    )

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """A few requests."""
        return ListTasks([Task(id=str(i), prompt=text) for i, text in enumerate(REQUESTS)])

    @tool
    def find_customer(self, query: str, field: str = "any", limit: int = 5) -> str:
        """Find customers by name, e-mail address, telephone or account number.

        Matching ignores case and accents; a telephone number is compared by its digits alone.
        Exact matches come first, then those that begin with the query, then those that hold it.
        Closed accounts are listed last and marked, and nothing about them can be changed.

        Args:
            query: What to look for; at least three characters.
            field: Where to look: name, email, phone, account or any.
            limit: Most customers to return, from 1 to 20.
        """
        return "account 7719, open since 2019"

    @tool
    def read_order(self, order: int, with_history: bool = False) -> str:
        """Read one order: its lines, prices, discounts, payment, address and state.

        States are new, paid, packed, shipped, delivered, returned and cancelled. An order that
        was split has one state for each parcel. Prices include tax; discounts are listed with
        the rule that gave them. The history holds every change with its time and author, oldest
        first, and can be long for orders that were changed often.

        Args:
            order: Number of the order, without letters.
            with_history: Whether to add every change since the order was made.
        """
        return "shipped on the 3rd, one parcel"

    @tool
    def track_parcel(self, order: int, parcel: int = 1) -> str:
        """Ask the carrier where a parcel is now, and when it is expected.

        Answers come from the carrier and may lag by some hours; the time of the last scan is
        given. A parcel without a scan for five working days counts as lost, and then a new
        delivery or a refund may be offered. Times are local to the place of the scan.

        Args:
            order: Number of the order that the parcel belongs to.
            parcel: Which of its parcels, from 1, where the order was split.
        """
        return "last seen on the 4th"

    @tool
    def refund(self, order: int, amount: float, reason: str, notify: bool = True) -> str:
        """Pay money back to where it came from, wholly or in part.

        The amount may not exceed what was paid less what was already refunded. Amounts above 200
        wait for approval by a colleague and are reported as pending, not as done. Refunds of
        orders that are paid but not shipped cancel them. A refund can't be taken back.

        Args:
            order: Number of the order.
            amount: In the currency of the order, tax included, with two decimals.
            reason: double_charge, lost, damaged, late, wrong_item, returned or goodwill.
            notify: Whether the customer gets the standard message about it.
        """
        return "done"

    @tool
    def change_address(self, order: int, street: str, postcode: str, town: str) -> str:
        """Change where an order goes, as long as it has not been packed.

        The address is checked against the postal register, which may correct the spelling of
        streets and towns; the corrected form is returned and used. Orders can't be sent to
        another country than the one they were priced for: make a new order instead.

        Args:
            order: Number of the order.
            street: Street and house number, with the flat if there is one.
            postcode: As written in the country of the order.
            town: Name of the town; districts are ignored.
        """
        return "done"

    @tool
    def stock(self, article: str, near: str = "", within_km: float = 50.0) -> str:
        """How many pieces of an article are in stock, by warehouse and shop.

        Counts are those of the last stock-taking less what has been sold since, so that small
        numbers may be wrong by one or two. Reserved pieces are not counted. With a place, only
        shops around it are listed, nearest first, with their distance and opening hours.

        Args:
            article: Number of the article, or words of its name.
            near: Postcode to look around; empty lists warehouses only.
            within_km: Radius in kilometres, as the crow flies.
        """
        return "4 pieces, 11 km away"

    @tool
    def reserve(self, article: str, shop: str, account: int, days: int = 2) -> str:
        """Put a piece aside for a customer in a shop.

        The customer is told when it is ready. A reservation ends by itself after the days given
        or when the piece is bought; it is not a sale, and the price may change until then. A
        customer may hold three reservations at a time.

        Args:
            article: Number of the article.
            shop: Code of the shop, as the stock tool lists it.
            account: Account of the customer.
            days: How long to hold it, from 1 to 7.
        """
        return "reserved"

    @tool
    def appointments(self, kind: str, after: str, before: str = "", mornings: bool = False) -> str:
        """List free appointments for repair, delivery or advice.

        Times are returned in order, at most thirty, in the shop's own time zone and with the
        length of each. Public holidays are left out. A listed time is not held: it may be gone
        when it is booked, and the booking then fails with the next free one.

        Args:
            kind: repair, delivery or advice.
            after: First day, as 2026-11-30.
            before: Last day; empty looks four weeks ahead.
            mornings: Whether to list only times before noon.
        """
        return "the 13th at 9"

    @tool
    def write_note(self, ticket: int, text: str, internal: bool = True) -> str:
        """Add a note to a ticket, for colleagues or for the customer too.

        Notes can't be edited or removed. Internal ones are seen by the help desk and the
        warehouses; others are sent to the customer as they are, so they must be polite, complete
        and free of names of other customers. Links are turned into plain text.

        Args:
            ticket: Number of the ticket.
            text: What to write, at most 4,000 characters.
            internal: Whether to keep it from the customer.
        """
        return "written"

    @tool
    def hand_over(self, ticket: int, team: str, summary: str, urgent: bool = False) -> str:
        """Give a ticket to another team, and stop working on it.

        Use it for legal questions, for complaints about persons, and where the tools have failed
        twice. The summary is all that the other team reads at first: what was asked, what was
        tried, what is missing. Urgent tickets call somebody, also at night.

        Args:
            ticket: Number of the ticket.
            team: billing, logistics, repair, legal or lead.
            summary: Three to ten sentences.
            urgent: Whether it can't wait until the morning.
        """
        return "handed over"

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """By lot."""
        return {"correct": float(trajectory.seed % 2)}
