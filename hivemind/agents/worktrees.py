"""A git worktree and a branch for each agent, so that several work on one repository without seeing each other's files.

They are in `.hivemind/worktrees/NAME` of the main checkout, on branch `hivemind/NAME`. One is removed only if nothing
would be lost: no file in it is uncommitted, and its commits are in another branch, or their changes in the one that it
began at. While a process of the agent runs, it holds a lock on a file that git keeps for the worktree.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hivemind.errors import HiveMindError, UsageError
from hivemind.store.locks import is_held, take_lock
from hivemind.text.humanise import plural
from hivemind.text.shells import command_line

BRANCHES = "hivemind/"
_FOLDER = Path(".hivemind") / "worktrees"
_LOCK = "hivemind.lock"
_AGENT, _BASE, _FROM = "hivemindagent", "hivemindbase", "hivemindfrom"
"""Settings of a branch in git's configuration: the agent's name, the commit that the worktree began at, and the branch
that was at that commit."""
_ODD = re.compile(r"[^A-Za-z0-9._-]|\.\.|\.$|\.lock$|^[.-]")
"""What can't stand in a branch's or a folder's name."""
_NAMED_BY_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables that git sets for its hooks; they would lead every git to the repository of the hook."""


class WorktreeError(HiveMindError):
    """Git can't do it; the text has its words."""


class Worktree(Struct, frozen=True):
    """An agent's worktree and what it holds."""

    agent: str
    folder: Path
    branch: str
    base: str
    """The commit that it began at; empty: unknown."""
    tip: str
    """The branch's commit; empty: somebody deleted the branch."""
    commits: int = 0
    """Commits since then that are in no branch of the user's."""
    changes: int = 0
    """Uncommitted files; new ones count, ignored ones don't."""
    merged: bool = False
    """The user's branches have all its changes."""
    ignored: int = 0
    """Files and folders that git ignores."""
    used: bool = False
    """A process of the agent runs."""
    exists: bool = True
    """False: its folder was deleted."""

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost by removing it."""
        return not self.changes and self.merged

    @property
    def safe(self) -> bool:
        """Whether it can be removed: nothing would be lost, and nothing works in it."""
        return self.empty and not self.used

    @property
    def state(self) -> str:
        """What it holds in words: `2 commits, 1 uncommitted file`."""
        parts = [] if self.exists else ["its folder is gone"]
        if self.commits and not self.merged:
            parts.append(plural(self.commits, "commit"))
        if self.changes:
            parts.append(plural(self.changes, "uncommitted file"))
        if not parts or (not self.exists and self.merged):
            parts.append("unchanged" if self.tip in ("", self.base) else "merged")
        return ", ".join([*(["in use"] if self.used else []), *parts])


class Base(Struct, frozen=True):
    """Where worktrees begin."""

    commit: str
    branch: str
    """The branch that is at it, as `refs/heads/main`; empty: none is."""


class OpenWorktree:
    """A worktree that an agent's process is to be started in. Until :meth:`close`, and as long as a process has the
    file of its lock, nobody removes it."""

    def __init__(self, repository: Repository, worktree: Worktree, cwd: Path, lock: int, notice: str) -> None:
        self.folder = worktree.folder
        self.cwd = cwd
        """The folder in it that corresponds to the one in the user's checkout."""
        self.lock = lock
        """A file to be inherited by the agent's process."""
        self.notice = notice
        """What the user should know of it; may be empty."""
        self._repository = repository
        self._agent = worktree.agent

    def close(self) -> None:
        """Release it, and keep it."""
        os.close(self.lock)

    def finish(self, *, remove: bool) -> LeftWorktree:
        """Release it, and with `remove` remove it if it was never used for anything."""
        self.close()
        return self._repository.finish(self._agent, remove=remove)


class LeftWorktree(Struct, frozen=True):
    """What became of a worktree when its agent's process had ended."""

    folder: Path
    branch: str
    state: str
    """What it holds in words."""
    removed: bool = False

    @property
    def text(self) -> str:
        """One line about it."""
        if self.removed:
            return "its worktree is unchanged and was removed"
        return f"its worktree: {self.folder} ({f'branch {self.branch}, ' if self.branch else ''}{self.state})"


class Repository:
    """A git repository with agents' worktrees. Methods raise WorktreeError."""

    def __init__(self, checkout: Path, environ: Mapping[str, str]) -> None:
        self._environ = without_git(environ) | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
        self._checkout = checkout
        listed = self._listed()
        main = next((line[len("worktree ") :] for line in listed[0].split("\0") if line.startswith("worktree ")), "")
        bare = "bare" in listed[0].split("\0")
        self.root = (checkout if bare or not main else Path(main)) / _FOLDER
        """The folder of the worktrees."""
        self._folders = set[Path]()
        self._look()
        self._common = Path(self._git("rev-parse", "--git-common-dir").rstrip("\n"))
        if not self._common.is_absolute():
            self._common = checkout / self._common

    @classmethod
    def around(cls, cwd: Path, environ: Mapping[str, str], flag: str = "--worktree") -> Repository:
        """Return the repository of that folder. Raises: UsageError: there is none."""
        if not cwd.is_dir():
            raise UsageError(f"{flag}: there is no folder {cwd}")
        if shutil.which("git", path=environ.get("PATH", os.defpath)) is None:
            raise UsageError(f"{flag}: needs git, which isn't in PATH")
        done = _run_git(cwd, without_git(environ) | {"LC_ALL": "C"}, "rev-parse", "--show-toplevel")
        if done.returncode:
            why = done.stderr.strip().removeprefix("fatal: ").split("\n")[0]
            if "not a git repository" in why:
                raise UsageError(f"{flag}: {cwd} isn't in a git repository; git init makes it one")
            if "work tree" in why:
                raise UsageError(f"{flag}: {cwd} is in a git repository, but not in a checkout of it")
            raise UsageError(f"{flag}: git can't use the repository around {cwd}: {why}")
        return cls(Path(done.stdout.rstrip("\n")), environ)

    # --- Making ---------------------------------------------------------------------------------------------------

    def base(self, given: str | None, *, flag: str = "--worktree", unseen: bool = False) -> Base:
        """Return where worktrees begin: at the branch or commit given, else at HEAD. That must have all that is in the
        user's checkout, unless `unseen` allows changes that agents don't see.

        Raises: UsageError.
        """
        self._check_links()
        commit = self._try("rev-parse", "--verify", "--quiet", "--end-of-options", f"{given or 'HEAD'}^{{commit}}")
        if commit is None and given is None:
            raise UsageError(f"{flag}: the repository has no commit yet, so there is nothing to begin at")
        if commit is None:
            raise UsageError(f"{flag} {given}: there is no such branch or commit in {self._checkout}")
        if given is None and not unseen and (changes := self._changes(self._checkout, "no")[0]):
            raise UsageError(
                f"{flag}: {plural(changes, 'file')} in {self._checkout} {'is' if changes == 1 else 'are'} changed and"
                f" not committed, which agents wouldn't see; commit or stash, or begin at the last commit all the"
                f" same: {flag} HEAD"
            )
        name = self._try("rev-parse", "--symbolic-full-name", "--verify", "--quiet", given or "HEAD") or ""
        return Base(commit.strip(), name.strip() if name.startswith("refs/") else "")

    def open(self, agent: str, base: Base | None, cwd: Path) -> OpenWorktree:
        """Return the agent's worktree, made at `base` if there is none. One without work of its own begins there anew;
        one with work is used as it is. Without a base it has to be there, and is used as it is. `cwd` is where the
        agent would start in the user's checkout.

        Raises: UsageError: the agent can't start there; WorktreeError: a process of the agent runs in it, or it can't
        be made, or isn't there.
        """
        with self._alone():
            self._look()
            folder, branch = self._folder(agent), BRANCHES + _safe(agent)
            self._check_links(folder)
            known = self._is_there(folder) or bool(self._tip(branch))
            if not self._is_there(folder):
                if base is None:
                    raise WorktreeError(_gone(agent, folder))
                self._make(agent, folder, base)
                self._check_links(folder)  # one may have come while git was at work
            worktree = self.found(agent)
            lock = self._taken(worktree)
            try:
                notice = self._refreshed(worktree, base) if known else ""
                start = self.start_of(agent, cwd)
                below = start.relative_to(folder)
                if not start.is_dir():
                    raise UsageError(f"--worktree: {below} isn't in {branch}, so the agent can't start there")
                if not start.resolve().is_relative_to(folder.resolve()):
                    raise UsageError(f"--worktree: {below} of {branch} leads out of it, so the agent can't start there")
            except BaseException:
                os.close(lock)
                raise
        return OpenWorktree(self, worktree, start, lock, notice)

    def start_of(self, agent: str, cwd: Path) -> Path:
        """Return the folder in the agent's worktree that corresponds to one in the user's checkout."""
        return self._folder(agent) / cwd.resolve().relative_to(self._checkout.resolve())

    def _refreshed(self, worktree: Worktree, base: Base | None) -> str:
        if not worktree.empty:
            return f"it goes on in its worktree, which has {worktree.state}"
        if base is not None and worktree.tip != base.commit:
            self._git("-C", str(worktree.folder), "checkout", "-q", "--no-track", "-B", worktree.branch, base.commit)
            self._note(worktree.branch, worktree.agent, base)
        return ""

    def _make(self, agent: str, folder: Path, base: Base) -> None:
        branch = BRANCHES + _safe(agent)
        if folder.exists():
            raise UsageError(f"--worktree: {folder} is in the way, which is no worktree of this repository")
        self.root.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), (self.root / ".gitignore").open("x", encoding="utf-8") as ignore:
            ignore.write("*\n")
        if self._tip(branch):  # its folder was deleted, and the branch may have commits
            self._git("worktree", "add", "-q", "--force", str(folder), branch)
        else:
            self._git("worktree", "add", "-q", "--force", "--no-track", "-b", branch, str(folder), base.commit)
            self._note(branch, agent, base)
        self._folders.add(folder)

    def _check_links(self, *folders: Path) -> None:
        """Check that worktrees, and those in these folders, are in the repository. Raises: UsageError: a link may lead
        out of it."""
        for each in (self.root.parent, self.root, *folders):
            if each.is_symlink():
                raise UsageError(
                    f"{each} is a symbolic link, and a worktree may not be outside of its repository; remove the link"
                )

    def _note(self, branch: str, agent: str, base: Base) -> None:
        for key, value in ((_AGENT, agent), (_BASE, base.commit), (_FROM, base.branch)):
            self._git("config", "--local", f"branch.{branch}.{key}", value)

    def _taken(self, worktree: Worktree) -> int:
        """Return the locked file. Raises: WorktreeError: another process has it."""
        try:
            return take_lock(self._lock_of(worktree.folder))
        except BlockingIOError:
            raise WorktreeError(_in_use(worktree)) from None

    # --- Looking --------------------------------------------------------------------------------------------------

    def all(self) -> list[Worktree]:
        """Return the worktrees of all agents, by name."""
        self._look()
        branches = self._git("for-each-ref", "--format=%(refname:lstrip=2)", f"refs/heads/{BRANCHES}").split()
        names = {self._setting(branch, _AGENT) or branch.removeprefix(BRANCHES): None for branch in branches}
        names |= {folder.name: None for folder in self._folders if folder.parent == self.root}
        worktrees = {each.folder: each for each in map(self.found, names)}
        return sorted(worktrees.values(), key=lambda each: each.agent)

    def found(self, agent: str) -> Worktree:
        """Return the agent's worktree. Raises: UsageError: it has none."""
        folder, branch = self._folder(agent), BRANCHES + _safe(agent)
        tip = self._tip(branch)
        if folder not in self._folders and not tip:
            raise UsageError(f"{agent}: has no worktree in this repository; hivemind worktrees lists them")
        agent = self._setting(branch, _AGENT) or agent
        base, exists = self._setting(branch, _BASE), self._is_there(folder)
        changes, ignored = self._changes(folder, "normal") if exists else (0, 0)
        heads = {tip, self._git("-C", str(folder), "rev-parse", "HEAD").strip() if exists else ""} - {""}
        known = ["--not", *([base] if base else []), f"--exclude={BRANCHES}*", "--branches", "--remotes", "--tags"]
        commits = int(self._git("rev-list", "--count", *heads, *known)) if heads else 0
        merged = not commits or all(self._is_content_of(self._setting(branch, _FROM), head) for head in heads)
        used = exists and is_held(self._lock_of(folder))
        return Worktree(agent, folder, branch, base, tip, commits, changes, merged, ignored, used, exists)

    def finish(self, agent: str, *, remove: bool) -> LeftWorktree:
        """Return what the agent left, and with `remove` remove it if it was never used for anything."""
        folder, worktree = self._folder(agent), None
        try:
            worktree = self.found(agent)
            if remove and worktree.safe and not worktree.ignored and worktree.tip in ("", worktree.base):
                self.remove(worktree)
                return LeftWorktree(folder, worktree.branch, worktree.state, removed=True)
        except HiveMindError as error:
            return LeftWorktree(folder, worktree.branch if worktree else "", str(error))
        return LeftWorktree(folder, worktree.branch, worktree.state)

    def _is_content_of(self, branch: str, head: str) -> bool:
        """Return whether merging the commit into the branch would change nothing, as after a squash merge."""
        if not branch:
            return False
        merged = self._try("merge-tree", "--write-tree", branch, head)  # of git 2.38
        tree = self._try("rev-parse", "--verify", "--quiet", f"{branch}^{{tree}}")
        return merged is not None and tree is not None and merged.strip() == tree.strip()

    def _changes(self, folder: Path, untracked: str) -> tuple[int, int]:
        """Return the number of changed and of ignored files. Raises: WorktreeError."""
        flags = ["--porcelain", "-z", "--no-renames", f"--untracked-files={untracked}"]
        flags += ["--ignored=traditional"] if untracked != "no" else []
        lines = [line for line in self._git("-C", str(folder), "status", *flags).split("\0") if line]
        ignored = sum(line.startswith("!!") for line in lines)
        return len(lines) - ignored, ignored

    # --- Removing -------------------------------------------------------------------------------------------------

    def remove(self, worktree: Worktree, *, force: bool = False) -> None:
        """Remove the worktree and its branch; `force` also if work is lost. Raises: WorktreeError: work would be lost,
        or a process runs in it; UsageError: a link leads out of the repository."""
        with self._alone():
            self._look()
            now = self.found(worktree.agent)
            if now.used:
                raise WorktreeError(_in_use(now))
            if not now.empty and not force:
                first = "commit in it and " if now.changes else ""
                raise WorktreeError(
                    f"{now.agent}: {now.state} would be lost; {first}merge {now.branch}, or add --force"
                )
            if now.folder in self._folders:
                self._check_links(now.folder)
                self._git("worktree", "remove", *(["--force"] if force or not now.exists else []), str(now.folder))
                self._folders.discard(now.folder)
            if now.tip:
                self._git("branch", "-q", "-D", now.branch)

    # --- Names and git --------------------------------------------------------------------------------------------

    def _folder(self, agent: str) -> Path:
        return self.root / _safe(agent)

    def _setting(self, branch: str, key: str) -> str:
        return (self._try("config", "--local", "--get", f"branch.{branch}.{key}") or "").rstrip("\n")

    def _tip(self, branch: str) -> str:
        return (self._try("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") or "").strip()

    def _listed(self) -> list[str]:
        """Return git's lines about each worktree, the main one first."""
        return [part for part in self._git("worktree", "list", "--porcelain", "-z").split("\0\0") if part]

    def _look(self) -> None:
        """Learn what others made or removed since."""
        self._folders = {Path(part.split("\0")[0].removeprefix("worktree ")) for part in self._listed()}

    def _is_there(self, folder: Path) -> bool:
        return folder in self._folders and folder.is_dir()

    def _lock_of(self, folder: Path) -> Path:
        return Path(self._git("-C", str(folder), "rev-parse", "--absolute-git-dir").rstrip("\n")) / _LOCK

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other runners that make or remove worktrees of this repository."""
        with open(os.open(self._common / _LOCK, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _git(self, *words: str) -> str:
        done = _run_git(self._checkout, self._environ, *words)
        if done.returncode:
            why = done.stderr.strip().removeprefix("fatal: ").removeprefix("error: ").split("\n")[0]
            raise WorktreeError(f"git {words[0] if words[0] != '-C' else words[2]}: {why}")
        return done.stdout

    def _try(self, *words: str) -> str | None:
        done = _run_git(self._checkout, self._environ, *words)
        return None if done.returncode else done.stdout


def without_git(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what leads git to another repository than the folder's."""
    return {key: value for key, value in environ.items() if key not in _NAMED_BY_GIT}


def _run_git(cwd: Path, environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
        errors="surrogateescape", check=False,
    )  # fmt: skip


def _in_use(worktree: Worktree) -> str:
    return f"{worktree.agent}: a process still works in {worktree.folder}"


def _gone(agent: str, folder: Path) -> str:
    again = command_line("hivemind run --worktree --name", agent)
    return f"{agent} worked in its worktree {folder}, which isn't there any more; {again} -- COMMAND makes one"


def _safe(agent: str) -> str:
    """Return the agent's name as a branch and a folder may be called; names that differ stay different."""
    made = _ODD.sub("-", agent)
    return made if made == agent else f"{made}-{hashlib.sha256(agent.encode()).hexdigest()[:6]}"


class WantedWorktree(Struct, frozen=True):
    """That an agent starts in a worktree of its own."""

    repository: Repository
    base: Base | None
    """None: it goes on in the one that it has."""

    @classmethod
    def checked(
        cls, base: str | None, cwd: Path, environ: Mapping[str, str], *, flag: str = "--worktree", unseen: bool = False
    ) -> WantedWorktree:
        """Check that worktrees can be made there; see :meth:`Repository.base`. Raises: UsageError, WorktreeError."""
        repository = Repository.around(cwd, environ, flag)
        return cls(repository, repository.base(base, flag=flag, unseen=unseen))

    @classmethod
    def kept(cls, agent: str, cwd: Path, environ: Mapping[str, str]) -> WantedWorktree | None:
        """Return the agent's worktree that a folder is in, to go on there; None: it isn't in the agent's own.

        Raises: WorktreeError: the worktree is gone; UsageError: git can't be used.
        """
        folder = next((each for each in (cwd, *cwd.parents) if each.parts[-3:] == (*_FOLDER.parts, _safe(agent))), None)
        if folder is None:
            return None
        if not (folder / ".git").exists():
            raise WorktreeError(_gone(agent, folder))
        return cls(Repository.around(folder, environ, f"the worktree of {agent}"), None)

    def start_of(self, agent: str, cwd: Path) -> Path:
        """Return where in its worktree the agent starts."""
        return self.repository.start_of(agent, cwd)

    def open(self, agent: str, cwd: Path) -> OpenWorktree:
        """Return the agent's worktree, made if need be. Raises: UsageError, WorktreeError."""
        return self.repository.open(agent, self.base, cwd)
