"""Who appears in the demo: invented customers, orders and a carrier, all from one seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

_FIRST: Final = ("Maren", "Tobias", "Ifeoma", "Lucía", "Henrik", "Aiko", "Samir", "Greta", "Noé")
_LAST: Final = ("Oduya", "Lindqvist", "Okonkwo", "Barreiro", "Thorsen", "Hayashi", "Rahmani")
_STREETS: Final = ("Alder Row", "Millrace Lane", "Copper Street", "Harbour Walk", "Quince Avenue")
_CITIES: Final = (("Northfield", "55057"), ("Eastport", "04631"), ("Marlow", "03456"))
_AREAS: Final = (202, 415, 617)
_DOMAINS: Final = ("example.com", "example.org", "example.net")
_GOODS: Final = (("enamel kettle", 4950), ("wool blanket", 8900), ("desk lamp", 6425))
_COMPLAINTS: Final = (
    "my parcel should have been here last week",
    "the tracking page has said the same thing for days",
    "the box arrived open and half empty",
)


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer, with what a shop knows of one."""

    customer_id: str
    first_name: str
    last_name: str
    email: str
    phone: str
    address: Mapping[str, str]

    @property
    def full_name(self) -> str:
        return f"{self.first_name} {self.last_name}"


@dataclass(frozen=True, slots=True)
class Case:
    """One support case; prices are cents."""

    ticket_id: str
    customer: Customer
    order_id: str
    tracking_id: str
    item: str
    price_cents: int
    complaint: str
    signing_key: str

    def letter(self) -> str:
        """What the customer wrote: prose with a name, an e-mail address and a phone number."""
        customer = self.customer
        return (
            f"Hello, this is {customer.full_name}. It is about order {self.order_id}: "
            f"{self.complaint}. Please write to {customer.email} or call {customer.phone}. "
            f"Thank you, {customer.first_name}"
        )

    def order(self) -> dict[str, Any]:
        """The order as the shop's own service returns it: people in fields."""
        customer = self.customer
        return {
            "order_id": self.order_id,
            "status": "shipped",
            "tracking_id": self.tracking_id,
            "items": [{"name": self.item, "quantity": 1, "price_cents": self.price_cents}],
            "customer": {
                "customer_id": customer.customer_id,
                "first_name": customer.first_name,
                "last_name": customer.last_name,
                "email": customer.email,
                "phone": customer.phone,
                "address": dict(customer.address),
            },
        }

    def carrier_failure(self) -> str:
        """How careless services fail: the message repeats what the request was signed with."""
        return (
            f"POST /v1/shipments/{self.tracking_id}/status: 403 signature mismatch, "
            f"signing_key={self.signing_key} was rotated; sign again with the current key"
        )


def case(random: Random) -> Case:
    """A case drawn from `random`; the signing key is made here, none is written down anywhere."""
    name, price_cents = random.choice(_GOODS)
    return Case(
        ticket_id=f"T-{random.randrange(10_000, 100_000)}",
        customer=_customer(random),
        order_id=f"ORD-{random.randrange(100_000, 1_000_000)}",
        tracking_id=f"NX{random.randrange(10**9, 10**10)}",
        item=name,
        price_cents=price_cents,
        complaint=random.choice(_COMPLAINTS),
        signing_key=random.randbytes(32).hex(),
    )


def _customer(random: Random) -> Customer:
    first, last = random.choice(_FIRST), random.choice(_LAST)
    city, postal_code = random.choice(_CITIES)
    user = f"{first}.{last}{random.randrange(10, 1000)}".lower()
    plain = user.translate(str.maketrans("íé", "ie"))
    return Customer(
        customer_id=f"cus_{random.randrange(10**7, 10**8)}",
        first_name=first,
        last_name=last,
        email=f"{plain}@{random.choice(_DOMAINS)}",
        phone=f"+1 {random.choice(_AREAS)} 555 01{random.randrange(10, 100)}",
        address={
            "street": f"{random.randrange(1, 400)} {random.choice(_STREETS)}",
            "city": city,
            "postal_code": postal_code,
        },
    )
