"""What earlier versions left behind (tests/fixtures), unpacked where a test may change it."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from trusted import trusted_settings

from hivemind.settings_file import NAME

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in FIXTURES.glob("*.tar.gz"))
_YOUNG_S = 20 * 86400.0
"""Nothing is forgotten that soon; else what SQLite's log holds stays there, as a kill leaves it."""
_MADE_IN = "/tmp/hm"


@dataclass(frozen=True, slots=True)
class Kept:
    """One version's files."""

    folder: Path

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.folder / "state"

    @property
    def database(self) -> Path:
        """What the proxy on the default port left."""
        return self.state / "proxy-8765.db"

    @property
    def journals(self) -> tuple[Path, Path]:
        """The first part of the journal that has several and ended in good order, and the one that was cut off."""
        first, second = sorted(each for each in self.state.glob("journals/*.jsonl") if each.name.count(".") == 1)
        return first, second

    def move_to(self, port: str) -> None:
        """Let its database be that of a proxy on another port, which nothing else listens on."""
        for path in self.state.glob("proxy-8765.db*"):
            path.rename(path.with_name(path.name.replace("8765", port)))

    def used(self) -> dict[str, int]:
        """Tokens by agent (all together: empty), as the database's copy has them: reading would change its files."""
        copies = self.folder / "copies"
        copies.mkdir()
        for path in self.state.glob("proxy-*.db*"):
            shutil.copy(path, copies)
        [database] = copies.glob("*.db")
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return dict(connection.execute("SELECT name, json_extract(record, '$.own.ever.tokens') FROM agents"))


def unpacked(version: str, folder: Path) -> Kept:
    """As if it had been left just now: agents and runs that aren't seen for long are forgotten."""
    with tarfile.open(FIXTURES / f"{version}.tar.gz") as packed:
        # Python 3.11.2, as in Debian 12, has no filters yet.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
    for path in (folder / NAME, *(folder / "state").glob("batches/*/*/runners/*")):
        path.write_text(path.read_text().replace(_MADE_IN, str(folder)))
    trusted_settings(folder, (folder / NAME).read_text(), {"HOME": str(folder)})
    kept = Kept(folder)
    made = re.match(r"\d{8}-\d{6}", kept.journals[0].name)
    assert made is not None
    age = time.time() - time.mktime((*time.strptime(made[0], "%Y%m%d-%H%M%S")[:8], 0))
    if age > _YOUNG_S:
        _rejuvenate(kept.database, age)
    return kept


def _rejuvenate(database: Path, age: float) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE agents SET seen = seen + ?", (age,))
        connection.execute("UPDATE tasks SET changed = changed + ?", (age,))
        connection.execute("UPDATE runs SET started_at = started_at + ?1, ended_at = ended_at + ?1", (age,))
