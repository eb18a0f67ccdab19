"""`redactory retention`: what goes when, and proof that it went."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import (
    Bootstrap,
    ClientFile,
    Keys,
    Lake,
    PolicyFile,
    micros,
    required_micros,
)

if TYPE_CHECKING:
    from pipeline.retention.ledger import Receipt

retention_app = typer.Typer(no_args_is_help=True)
hold_app = typer.Typer(no_args_is_help=True)
copies_app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Instant = Annotated[
    datetime | None,
    typer.Option("--now", help="What if it were this time (UTC)?  [default: now]"),
]


Reason = Annotated[str, typer.Option("--reason", help="Why; kept with it.")]


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    retention_app.add_typer(hold_app, name="hold", help="Keep rows past their deadline.")
    retention_app.add_typer(copies_app, name="copies", help="Copies of rows outside the lake.")
    app.add_typer(
        retention_app,
        name="retention",
        help="Remove what has reached its deadline, and prove it.",
        rich_help_panel="Operate",
    )


@retention_app.command()
def plan(lake: Lake, now: Instant = None, as_json: AsJson = False) -> None:
    """Show what a sweep would remove, now or at another instant; changes nothing."""
    from pipeline.retention import showing
    from pipeline.retention.sweep import plan_lake

    found = plan_lake(lake, micros(now))
    if as_json:
        typer.echo(showing.plan_as_json(found))
    else:
        showing.print_plan(found)


@retention_app.command()
def sweep(
    lake: Lake,
    keys: Keys = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    strays: Annotated[
        bool, typer.Option(help="Look through the whole lake for files outside the live set.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Remove what has reached its deadline, list again, and write a receipt.

    Exit code 3 if something would not go: the receipt names it.
    """
    from pipeline.overdue import sweep_lake

    if dry_run:
        plan(lake, as_json=as_json)
        return
    receipt = sweep_lake(lake, keys, with_strays=strays)
    _tell(receipt, as_json=as_json)


@retention_app.command()
def shorten(
    lake: Lake,
    policy: Annotated[Path, typer.Option("--policy", help="Retention policy file.")],
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let stored rows go as soon as a changed policy wants; nothing is ever kept longer.

    Rows move to the buckets of their new ends, records and copies follow, and a receipt says so.
    What is overdue by the new policy goes within two hours. Start ingests with the policy first:
    they go on under the one they were started with. Exit code 3 if something would not move.
    """
    from pipeline.errors import UsageError
    from pipeline.retention import showing
    from pipeline.retention.shorten import plan_shortening, shorten_in_lake

    if dry_run:
        found = plan_shortening(lake, policy)
        if as_json:
            typer.echo(showing.shortening_as_json(found))
        else:
            showing.print_shortening(found)
        return
    if not reason:
        raise UsageError("a reason is wanted", code="usage", hint="--reason: it is kept")
    receipt = shorten_in_lake(lake, policy, reason)
    _tell(receipt, as_json=as_json)


@retention_app.command()
def log(
    lake: Lake,
    last: Annotated[int, typer.Option(min=1, help="How many entries to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the ledger of removals and check its chain; exit code 1 if the chain is broken."""
    from pipeline.lake.store import Store
    from pipeline.retention import showing
    from pipeline.retention.ledger import Ledger

    ledger = Ledger(Store.open(lake), "")
    entries, broken, head = list(ledger.entries()), ledger.check(), ledger.head()
    if as_json:
        typer.echo(showing.ledger_as_json(entries, broken, head))
    else:
        showing.print_ledger(entries, broken, head, last)
    if broken:
        raise typer.Exit(1)


@hold_app.command()
def add(
    lake: Lake,
    reason: Reason,
    owner: Annotated[str, typer.Option(help="Who answers for the hold.")],
    review: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="When to look at it again.")
    ],
    run: Annotated[list[str] | None, typer.Option(help="A run, as the lake names it.")] = None,
    subject: Annotated[
        list[str] | None, typer.Option(help="A subject in clear; kept as its pseudonyms.")
    ] = None,
    retention_class: Annotated[list[str] | None, typer.Option("--class", help="A class.")] = None,
    since: Annotated[
        datetime | None, typer.Option("--from", help="Events from here (UTC).")
    ] = None,
    until: Annotated[datetime | None, typer.Option(help="Events before this (UTC).")] = None,
    keys: Keys = None,
    as_json: AsJson = False,
) -> None:
    """Hold the rows that meet every condition given; the rest of their buckets goes as planned."""
    import getpass

    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.store import Store
    from pipeline.retention import holds, showing, subjects

    added = holds.add_hold(
        Store.open(lake),
        holds.Rows(
            tuple(run or ()),
            subjects.pseudonyms_of(subject or (), keys),
            tuple(retention_class or ()),
            micros(since),
            micros(until),
        ),
        now_us=system_clock_us(),
        by=getpass.getuser(),
        reason=reason,
        owner=owner,
        review_on=review.strftime("%Y-%m-%d"),
    )
    typer.echo(showing.hold_as_json(added) if as_json else f"hold {added.number} is in force")


@hold_app.command("list")
def list_holds(lake: Lake, as_json: AsJson = False) -> None:
    """List the holds in force."""
    from pipeline.lake.store import Store
    from pipeline.retention import showing
    from pipeline.retention.holds import read_holds

    active = read_holds(Store.open(lake)).active
    if as_json:
        typer.echo(showing.holds_as_json(active))
    else:
        showing.print_holds(active)


@hold_app.command()
@retention_app.command()
def release(
    number: Annotated[int, typer.Argument(help="The hold's number.")],
    lake: Lake,
    reason: Reason,
) -> None:
    """End a hold: its rows go with the next sweep if their bucket has ended."""
    import getpass

    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.store import Store
    from pipeline.retention.holds import release_hold

    store = Store.open(lake)
    release_hold(store, number, now_us=system_clock_us(), by=getpass.getuser(), reason=reason)
    typer.echo(f"hold {number} is released")


@retention_app.command()
def erase(
    lake: Lake,
    reason: Reason,
    subject: Annotated[list[str], typer.Option(help="Whom to erase, in clear; may be repeated.")],
    keys: Keys = None,
    as_json: AsJson = False,
) -> None:
    """Remove every row about somebody, held ones excepted, and write a receipt.

    The subject is looked for under its pseudonyms, so give every spelling that may have occurred.
    Exit code 3 if something may still hold it: the receipt names it. The raw topic is not touched:
    see `redactory retention topic` and `ingest --delete-consumed`.
    """
    from pipeline.retention.erase import erase_in_lake

    receipt = erase_in_lake(lake, subject, keys, reason)
    _tell(receipt, as_json=as_json)


@copies_app.command("list")
def list_copies(lake: Lake, as_json: AsJson = False) -> None:
    """List the copies that are not known to be gone."""
    from pipeline.lake.store import Store
    from pipeline.retention import showing
    from pipeline.retention.copies import read_copies

    copies = read_copies(Store.open(lake))
    if as_json:
        typer.echo(showing.copies_as_json(copies))
    else:
        showing.print_copies(copies)


@copies_app.command("add")
def add_copy(
    location: Annotated[str, typer.Argument(help="Absolute path or address of the copy.")],
    lake: Lake,
    deadline: Annotated[datetime, typer.Option(help="When it must be gone (UTC).")],
) -> None:
    """Enter a copy that was made by other means; the sweep removes or reports it."""
    from pipeline.lake.store import Store
    from pipeline.retention.copies import copier

    copy = copier(Store.open(lake)).register("external", location, required_micros(deadline))
    typer.echo(f"copy {copy.number} is entered")


@copies_app.command("gone")
def copy_gone(
    number: Annotated[int, typer.Argument(help="The copy's number.")], lake: Lake
) -> None:
    """Enter that a copy which the sweep could not reach is gone."""
    from pipeline.lake.store import Store
    from pipeline.retention.copies import copier, find_copy

    store = Store.open(lake)
    copier(store).close(find_copy(store, number), "said to be gone")
    typer.echo(f"copy {number} is gone")


@retention_app.command()
def topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The raw topic.")],
    bootstrap: Bootstrap,
    policy: PolicyFile = None,
    config: ClientFile = None,
    repair: Annotated[bool, typer.Option("--repair", help="Set what is wrong.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that the raw topic keeps no record longer than the policy; exit code 1 if it may."""
    from pipeline.retention import showing
    from pipeline.retention.policy import load_policy
    from pipeline.retention.topic import RawTopic, find_drift

    raw, wanted = RawTopic(bootstrap, name, config), load_policy(policy)
    drift = find_drift(raw.settings(), wanted)
    if repair and drift:
        raw.repair(drift)
    if as_json:
        typer.echo(showing.drift_as_json(drift, repaired=repair))
    else:
        showing.print_drift(drift, repaired=repair)
    if drift and not repair:
        raise typer.Exit(1)


@retention_app.command()
def subject(
    name: Annotated[str, typer.Argument(help="The subject in clear.")],
    keys: Keys = None,
) -> None:
    """Print a subject's pseudonyms, one for each key: so the lake and a policy's rules name it."""
    from pipeline.retention.subjects import pseudonyms_of

    for pseudonym in pseudonyms_of([name], keys):
        typer.echo(pseudonym)


def _tell(receipt: "Receipt | None", *, as_json: bool) -> None:
    """Prints what was removed; exit code 3 if something would not go."""
    from pipeline.retention import showing

    if as_json:
        typer.echo(showing.receipt_as_json(receipt))
    else:
        showing.print_receipt(receipt)
    if receipt is not None and not receipt.is_complete:
        raise typer.Exit(3)
