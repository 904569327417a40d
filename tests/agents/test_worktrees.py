"""Agents' git worktrees: made, used again, and removed only when nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agents.batches import served
from agents.repositories import ENVIRON, commit, git, repository
from agents.running import before
from program import Ended, called

from hivemind.agents.worktrees import Base, Repository, WantedWorktree, Worktree, WorktreeError
from hivemind.errors import UsageError

pytestmark = pytest.mark.e2e


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def opened(repo: Path, agent: str = "alice", base: str | None = None, below: str = ".") -> Path:
    """Make or take the agent's worktree, and release it; return where the agent would start."""
    tree = WantedWorktree.checked(base, repo, ENVIRON).open(agent, repo / below)
    tree.close()
    return tree.cwd


def found(repo: Path, agent: str = "alice") -> Worktree:
    return Repository.around(repo, ENVIRON).found(agent)


def command(repo: Path, *args: str) -> Ended:
    return called(repo, ["worktrees", *args], ENVIRON)


def test_each_agent_has_a_branch_and_a_folder_that_git_does_not_show(repo: Path) -> None:
    commit(repo, "web/page", "page")
    at = opened(repo, below="web")
    assert at == repo / ".hivemind/worktrees/alice/web"
    assert git(at, "branch", "--show-current") == "hivemind/alice"
    assert (at / "page").read_text() == "page"
    assert git(repo, "status", "--porcelain") == ""
    assert found(repo).state == "unchanged"


def test_a_worktree_made_from_a_worktree_is_beside_it(repo: Path) -> None:
    inner = opened(repo)
    commit(inner, "mine", "mine")
    assert opened(inner, "child") == repo / ".hivemind/worktrees/child"
    assert (repo / ".hivemind/worktrees/child/mine").exists()


@pytest.mark.parametrize("link", [".hivemind", ".hivemind/worktrees", ".hivemind/worktrees/alice"])
@pytest.mark.parametrize("there", [True, False], ids=["to a folder", "to nothing"])
def test_a_link_does_not_lead_out_of_the_repository(repo: Path, tmp_path: Path, link: str, there: bool) -> None:
    """Neither one that a repository came with nor one that took the place of a folder since."""
    outside = tmp_path / "outside"
    (repo / link).parent.mkdir(parents=True, exist_ok=True)
    (repo / link).symlink_to(outside)
    if there:
        outside.mkdir()
    with pytest.raises(UsageError) as refused:
        opened(repo)
    text = f"{repo / link} is a symbolic link, and a worktree may not be outside of its repository; remove the link"
    assert str(refused.value) == text
    if link != ".hivemind/worktrees/alice":  # else a proxy is started first
        assert called(repo, ["run", "--worktree", "--", "true"], ENVIRON).both == (2, f"hivemind: {text}")
    assert not outside.exists() or not any(outside.iterdir())
    assert not Repository.around(repo, ENVIRON).all()


@pytest.mark.parametrize("part", [".hivemind", ".hivemind/worktrees", ".hivemind/worktrees/alice"])
def test_a_folder_that_became_a_link_is_neither_used_nor_removed(repo: Path, tmp_path: Path, part: str) -> None:
    """An agent may have moved it away, where the user has files."""
    opened(repo)
    outside = tmp_path / "outside"
    (repo / part).rename(outside)
    (repo / part).symlink_to(outside)
    with pytest.raises(UsageError, match="is a symbolic link"):
        opened(repo)
    refused = command(repo, "remove", "alice", "--force")
    assert refused.code != 0
    assert "is a symbolic link" in refused.err
    assert any(outside.iterdir())


def test_a_link_that_comes_while_a_worktree_is_made(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No agent is started in it."""
    outside, real = tmp_path / "outside", Repository._make

    def swapped(self: Repository, agent: str, folder: Path, base: Base) -> None:
        outside.mkdir()
        self.root.parent.mkdir()
        self.root.symlink_to(outside)
        real(self, agent, folder, base)

    monkeypatch.setattr(Repository, "_make", swapped)
    with pytest.raises(UsageError, match="is a symbolic link"):
        opened(repo)


def test_a_folder_of_a_worktree_that_leads_out_of_it(repo: Path, tmp_path: Path) -> None:
    """The agent would start there."""
    commit(repo, "web/page", "page")
    at = opened(repo, below="web")
    (at / "page").unlink()
    at.rmdir()
    at.symlink_to(tmp_path)
    with pytest.raises(UsageError, match="web of hivemind/alice leads out of it, so the agent can't start there"):
        opened(repo, below="web")


def test_a_file_that_hides_the_worktrees_is_not_written_elsewhere(repo: Path, tmp_path: Path) -> None:
    """As a link to a file that isn't there yet would have it."""
    (repo / ".hivemind/worktrees").mkdir(parents=True)
    (repo / ".hivemind/worktrees/.gitignore").symlink_to(tmp_path / "profile")
    opened(repo)
    assert not (tmp_path / "profile").exists()


@pytest.mark.parametrize("agent", ["a b", "../up", "x.lock", "é"])
def test_any_name_of_an_agent_will_do(repo: Path, agent: str) -> None:
    at = opened(repo, agent)
    assert at.parent == repo / ".hivemind/worktrees"
    assert [each.agent for each in Repository.around(repo, ENVIRON).all()] == [agent]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (lambda at: (at / "new").write_text("x"), "1 uncommitted file"),
        pytest.param(lambda at: (at / "README").write_text("x"), "1 uncommitted file", marks=pytest.mark.slow),
        pytest.param(lambda at: (at / "README").unlink(), "1 uncommitted file", marks=pytest.mark.slow),
        (lambda at: commit(at, "new", "x"), "1 commit"),
        (lambda at: (commit(at, "new", "x"), git(at, "checkout", "-q", "--detach", "main")), "1 commit"),
        (lambda at: (git(at, "checkout", "-q", "--detach"), commit(at, "new", "x")), "1 commit"),
        (lambda at: subprocess.run(["git", "init", "-q", at / "inner"], check=True, env=ENVIRON), "1 uncommitted file"),
    ],
    ids=["new file", "changed", "deleted", "commit", "commit on the branch alone", "detached", "a repository inside"],
)
def test_work_is_never_lost(repo: Path, change: Callable[[Path], object], state: str) -> None:
    """Whatever isn't in a branch of the user's keeps a worktree, and is said."""
    at = opened(repo)
    change(at)
    assert found(repo).state == state
    assert command(repo, "prune").out == f"alice: kept ({state})\n"
    refused = command(repo, "remove", "alice")
    assert refused.both == (
        1,
        f"hivemind: alice: {state} would be lost; {'commit in it and ' if 'file' in state else ''}merge hivemind/alice,"
        " or add --force",
    )
    assert at.exists()
    assert found(repo).state == state
    assert command(repo, "remove", "alice", "--force").code == 0
    assert not at.exists()
    assert git(repo, "branch", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize("how", ["merge", "squash", "pick", "other branch"])
def test_what_is_merged_is_removed(repo: Path, how: str) -> None:
    at = opened(repo)
    tip = commit(at, "new", "x")
    commit(repo, "other", "y")
    if how == "other branch":
        git(at, "checkout", "-q", "-b", "mine")
    elif how == "pick":
        git(repo, "cherry-pick", "hivemind/alice")
    else:
        git(repo, "merge", "-q", *(["--squash"] if how == "squash" else ["-m", "merge"]), "hivemind/alice")
        if how == "squash":
            git(repo, "commit", "-q", "-m", "squashed")
    done = command(repo, "prune")
    assert done.both == (0, f"alice: removed (merged; hivemind/alice was at {tip[:10]})")
    assert not at.exists()
    assert git(repo, "branch", "--list", "hivemind/*") == ""
    assert command(repo).out == f"no worktrees in {repo}/.hivemind/worktrees\n"


def test_a_worktree_with_work_is_used_again_and_one_without_begins_anew(repo: Path) -> None:
    at = opened(repo)
    commit(repo, "later", "x")
    opened(repo)
    assert (at / "later").exists()
    commit(at, "mine", "y")
    commit(repo, "latest", "z")
    tree = WantedWorktree.checked(None, repo, ENVIRON).open("alice", repo)
    tree.close()
    assert tree.notice == "it goes on in its worktree, which has 1 commit"
    assert ((at / "mine").exists(), (at / "latest").exists()) == (True, False)


def test_a_folder_deleted_by_hand(repo: Path) -> None:
    """Its commits are in its branch, and it is made again from there."""
    at = opened(repo)
    commit(at, "mine", "x")
    subprocess.run(["rm", "-rf", at], check=True)
    assert found(repo).state == "its folder is gone, 1 commit"
    assert command(repo, "prune").out == "alice: kept (its folder is gone, 1 commit)\n"
    assert (opened(repo) / "mine").exists()
    git(repo, "merge", "-q", "hivemind/alice")
    subprocess.run(["rm", "-rf", at], check=True)
    assert command(repo, "prune").code == 0
    assert git(repo, "worktree", "list").count("\n") == 0


def test_what_a_process_works_in_stays(repo: Path) -> None:
    """Also after its runner is gone: the process itself holds the lock."""
    tree = WantedWorktree.checked(None, repo, ENVIRON).open("alice", repo)
    with subprocess.Popen(["cat"], cwd=tree.cwd, stdin=subprocess.PIPE, pass_fds=(tree.lock,)) as process:
        tree.close()
        assert found(repo).state == "in use, unchanged"
        assert command(repo, "prune").out == "alice: kept (in use, unchanged)\n"
        assert command(repo, "remove", "alice", "--force").code == 1
        with pytest.raises(WorktreeError, match=f"alice: a process still works in {tree.folder}"):
            opened(repo)
        assert tree.folder.exists()
        process.communicate()
    assert command(repo, "prune").code == 0
    assert not tree.folder.exists()


def test_ignored_files_keep_a_worktree_after_a_run_and_go_with_prune(repo: Path) -> None:
    commit(repo, ".gitignore", "build\n")
    wanted = WantedWorktree.checked(None, repo, ENVIRON)
    tree = wanted.open("alice", repo)
    (tree.folder / "build").write_text("x")
    assert tree.finish(remove=True).text == f"its worktree: {tree.folder} (branch hivemind/alice, unchanged)"
    assert command(repo, "prune").code == 0
    assert not tree.folder.exists()


def test_where_it_cannot_be(tmp_path: Path, repo: Path) -> None:
    def refused(at: Path, base: str | None = None, environ: dict[str, str] = ENVIRON) -> str:
        with pytest.raises(UsageError) as error:
            WantedWorktree.checked(base, at, environ)
        return str(error.value)

    outside = tmp_path / "outside"
    outside.mkdir()
    assert refused(outside) == f"--worktree: {outside} isn't in a git repository; git init makes it one"
    git(outside, "init", "-q")
    assert refused(outside) == "--worktree: the repository has no commit yet, so there is nothing to begin at"
    assert "isn't in PATH" in refused(repo, environ={"PATH": str(tmp_path)})
    assert refused(repo, "nope") == f"--worktree nope: there is no such branch or commit in {repo}"
    assert "no such branch or commit" in refused(repo, "--all")
    assert "not in a checkout of it" in refused(repo / ".git")
    (repo / "untracked").write_text("x")
    WantedWorktree.checked(None, repo, ENVIRON)
    (repo / "README").write_text("x")
    assert refused(repo) == (
        f"--worktree: 1 file in {repo} is changed and not committed, which agents wouldn't see; commit or stash, or"
        " begin at the last commit all the same: --worktree HEAD"
    )
    WantedWorktree.checked("HEAD", repo, ENVIRON)
    (repo / "only").mkdir()
    with pytest.raises(UsageError, match="only isn't in hivemind/alice"):
        opened(repo, base="HEAD", below="only")


def test_variables_of_a_git_hook_do_not_lead_elsewhere(repo: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    environ = ENVIRON | {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    WantedWorktree.checked(None, repo, environ).open("alice", repo).close()
    assert found(repo).exists
    assert git(other, "branch", "--list", "hivemind/*") == ""


def test_a_worktree_that_git_refuses_to_remove(repo: Path) -> None:
    at = opened(repo)
    git(repo, "worktree", "lock", str(at))
    with pytest.raises(WorktreeError, match="locked"):
        Repository.around(repo, ENVIRON).remove(found(repo))
    assert found(repo).exists


def test_command_mistakes(repo: Path) -> None:
    opened(repo)
    assert command(repo, "prun").both == (2, "hivemind: prun: must be list, remove or prune; did you mean prune?")
    assert "did you mean alice?" in command(repo, "remove", "alicia").err
    assert command(repo, "remove").code == command(repo, "list", "alice").code == command(repo, "--force").code == 2
    listed = json.loads(command(repo, "--json").out)
    assert [(each["agent"], each["state"], each["safe"]) for each in listed["worktrees"]] == [
        ("alice", "unchanged", True)
    ]
    left = json.loads(command(repo, "prune", "--json").out)
    assert ([each["agent"] for each in left["removed"]], left["worktrees"]) == (["alice"], [])


@pytest.mark.e2e
async def test_run_in_a_worktree(tmp_path: Path) -> None:
    """The command starts in the agent's worktree, which is kept with what it made there, else removed."""
    repo = repository(tmp_path / "repo")
    writes = "import os, pathlib; pathlib.Path('made').write_text('x'); print(os.getcwd(), os.environ.get('GIT_DIR'))"
    async with before(repo, log_level="error") as (running, place):
        place.environ |= {key: value for key, value in ENVIRON.items() if key.startswith("GIT_")}
        at = repo / ".hivemind/worktrees/alice"
        flags = ("--name", "alice", "--worktree")
        ran = await place.ran(*flags, "--report", "report.json", "--", sys.executable, "-c", writes, GIT_DIR="/nowhere")
        assert (ran.code, ran.out) == (0, f"{at} None\n"), ran.err
        assert f"its worktree: {at} (branch hivemind/alice, 1 uncommitted file)" in ran.err
        assert json.loads((repo / "report.json").read_text())["worktree"]["folder"] == str(at)
        assert not (repo / "made").exists()
        os.remove(repo / "report.json")
        again = await place.called("run", *flags, "--", "rm", "made")
        assert "it goes on in its worktree, which has 1 uncommitted file" in again.err
        assert "its worktree is unchanged and was removed" in again.err
        assert not at.exists()
        assert (await place.called("run", *flags, "--", "false")).code == 1
        assert at.exists(), "what failed may be resumed there"
        view = next(each for each in running.snapshot().agents if each.name == "alice")
        assert view.exit_code == 1
        outside = await place.called("run", "--cwd", str(tmp_path), "--worktree", "--", "true")
        assert (outside.code, outside.err) == (
            2,
            f"hivemind: --worktree: {tmp_path} isn't in a git repository; git init makes it one\n",
        )


@pytest.mark.e2e
async def test_a_plan_with_worktrees(tmp_path: Path) -> None:
    """Each agent works in its own, a restart goes on there, what it left is said, and one without work is removed."""
    script = (
        "echo $HIVEMIND_AGENT >> who; [ $(wc -l < who) = 1 ] && [ $HIVEMIND_AGENT = work.a-2 ] && exit 1;"
        " git add who; git commit -qm done"
    )
    tasks = {"a": {"command": ["sh", "-c", script], "count": 2, "restarts": 1}, "b": {"command": "true", "after": "a"}}
    async with served(repository(tmp_path / "repo"), log_level="error") as (_, here):
        (here.folder / "work.yaml").write_text(json.dumps({"worktree": True, "tasks": tasks}))
        ran = await here.run(**{key: value for key, value in ENVIRON.items() if key.startswith("GIT_")})
    assert ran.code == 0, ran.err
    root = here.folder / ".hivemind/worktrees"
    assert {name: task["worktree"] for name, task in here.report.items()} == {
        "a-1": f"{root}/work.a-1",
        "a-2": f"{root}/work.a-2",
        "b": None,
    }
    assert (root / "work.a-2/who").read_text() == "work.a-2\nwork.a-2\n"
    assert "a-2: it goes on in its worktree, which has 1 uncommitted file" in ran.err
    assert f"a-1: its worktree: {root}/work.a-1 (branch hivemind/work.a-1, 1 commit)" in ran.err
    assert "b: its worktree is unchanged and was removed" in ran.err
    assert git(here.folder, "branch", "--format=%(refname:short)").split() == [
        "hivemind/work.a-1",
        "hivemind/work.a-2",
        "main",
    ]
