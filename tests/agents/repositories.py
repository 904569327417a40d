"""Git repositories for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ENVIRON = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A U Thor",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "A U Thor",
    "GIT_COMMITTER_EMAIL": "author@example.com",
}
"""The environment, without any settings of git's on this machine."""


def git(folder: Path, *words: str) -> str:
    """Run git there and return its output."""
    done = subprocess.run(["git", *words], cwd=folder, env=ENVIRON, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(folder: Path) -> Path:
    """Make a repository with one commit in that folder."""
    first = Path(os.environ["XDG_STATE_HOME"]) / "repository"  # goes with the run
    if not first.exists():  # a copy is made in no time, and git's processes take a while
        first.mkdir()
        git(first, "init", "-q", "-b", "main")
        commit(first, "README", "first\n")
    return Path(shutil.copytree(first, folder, dirs_exist_ok=True))


def commit(folder: Path, file: str, text: str) -> str:
    """Write a file and commit it; return the commit."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git(folder, "add", "--", file)
    git(folder, "commit", "-q", "-m", f"write {file}")
    return git(folder, "rev-parse", "HEAD")
