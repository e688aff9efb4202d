"""Pages on their way: from the device to the host, from all ranks to the one that judges them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vlmguard.ledger.account import Account, Entry, Page, Verdict
from vlmguard.ledger.between_ranks import packed
from vlmguard.ledger.between_ranks.gather import Gather
from vlmguard.ledger.judged_window import Judge
from vlmguard_torch.ledger.later import Later

_KEPT = ("window", "step", "rank", "micro", "kinds", "skipped")
OnVerdicts = Callable[[int, Sequence[Verdict]], None]


class Pages:
    """The pages of one account's windows.

    Attributes:
        account, pages: of the window that was judged last; of its pages their heads, once it is
            judged: the tables in them are large.
        on_verdicts: gets ``(step, verdicts)`` of each window, on the rank that judges.
        on_page: gets every page of this rank, with lists in the place of tensors.
    """

    def __init__(self, account: Account, stations: Sequence[str], gather: Gather) -> None:
        self.account, self.gather = account, gather
        self.pages: Sequence[Page | None] = ()
        self.on_verdicts: OnVerdicts | None = None
        self.on_page: Callable[[Page], None] | None = None
        self._judge = Judge(account, stations)
        self._pending: deque[tuple[int, Later]] = deque()
        self._accounts: dict[int, Account] = {}
        self._steps: dict[int, int] = {}

    def recall(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        """What stations are to know of an earlier part of the run."""
        self._judge.recall(known)

    def begin(self, window: int, account: Account) -> None:
        """From this window on the account is another."""
        self._accounts[window] = account

    def add(self, window: int, page: Mapping[str, Any]) -> None:
        """What was read in a window; in it are tensors."""
        self._steps[window] = page["step"]
        self._pending.append((window, Later(page)))

    def idle(self) -> bool:
        """Whether none is on its way."""
        return not self._pending and self.gather.idle()

    def advance(self) -> None:
        """Hand on what has arrived."""
        while self._pending and self._pending[0][1].ready():
            window, later = self._pending.popleft()
            page = later.page()
            if self.on_page is not None:
                self.on_page(packed.plain(page))
            self.gather.leave(window, page)

    def step(self) -> None:
        """A step is over: judge what is complete."""
        for window, pages in self.gather.step():
            self._judged(window, pages)

    def rest(self, wait: float) -> None:
        """The run ends: judge what comes in ``wait`` seconds. What a device still copies is lost:
        it is not waited for."""
        self.advance()
        self._pending.clear()
        for window, pages in self.gather.rest(wait):
            self._judged(window, pages)

    def left_out(self, step: int, times: int) -> None:
        """The optimizer's step was left out ``times`` times in a row: no window ends."""
        why = f"the step was left out {times} times in a row, though no loss scale is searched for"
        advice = "look for inf or nan in the gradients of a rank, or why they are taken for such"
        entry = Entry("VG651", "warning", why, "all tensors", step, advice=advice)
        self.pages = ()
        if self.on_verdicts is not None:
            self.on_verdicts(step, [Verdict("update", "differs", (entry,))])

    def _judged(self, window: int, pages: Sequence[Page | None]) -> None:
        begun = [each for each in self._accounts if each <= window]
        self.account = self._judge.account = self._accounts[max(begun)]
        self.pages = pages
        step = self._steps.pop(window)
        if self.on_verdicts is not None:
            self.on_verdicts(step, self._judge.window(pages))
        self.pages = [page and {name: page[name] for name in _KEPT} for page in pages]
