"""A real Chromium, driven over its debugging protocol, that notes whatever a good page does not do."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.requirements import require

PHONE, DESK = {"width": 375, "height": 800}, {"width": 1280, "height": 900}
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WITHIN_MS = 20_000

CONTRASTS = """() => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1});
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return pen.getImageData(0, 0, 1, 1).data;
  };
  const luminance = (colour) => {
    const [r, g, b] = [...rgba(colour)].map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const ratio = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || ['SCRIPT', 'NOSCRIPT', 'STYLE'].includes(element.tagName)) continue;
    if (element.closest('button:disabled')) continue;
    found.push([ratio(getComputedStyle(element).color, ground(element)), 4.5, text.slice(0, 60)]);
  }
  const edged = 'input:not([type="radio"]), select, button:not(.plain, .past button)';
  for (const element of document.querySelectorAll(edged)) {
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    found.push([ratio(style.borderTopColor, ground(element.parentElement)), 3, `edge of ${element.id}`]);
  }
  for (const element of document.querySelectorAll('.part.allocated, .meter > span, .phase-bar span')) {
    const colour = getComputedStyle(element).backgroundColor;
    found.push([ratio(colour, ground(element.parentElement)), 2, element.className]);
  }
  return found;
}"""
"""Contrast of every text, edge and bar with its ground, and the least that there must be (WCAG AA; bars: ours)."""


@dataclass
class Watched:
    """A page, and what it did wrong."""

    page: Page
    origin: str
    faults: list[str] = field(default_factory=list)

    def resize(self, size: dict[str, int], scheme: Scheme) -> None:
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": size["width"], "height": size["height"]})

    def forgive(self, status: int) -> None:
        """Chromium notes every refused request as an error; this one was wanted."""
        wanted = [fault for fault in self.faults if f"status of {status}" in fault]
        assert wanted, self.faults
        self.faults.remove(wanted[0])

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than the screen."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    @property
    def faint(self) -> list[Any]:
        """What is too faint to be read, with its contrast."""
        found = self.page.evaluate(CONTRASTS)
        assert len(found) > 40, "texts are found at all"
        return [(round(ratio, 2), least, what) for ratio, least, what in found if ratio < least]

    @property
    def focused(self) -> dict[str, Any]:
        """What has the keyboard: its id or text, and whether one sees it."""
        return dict(
            self.page.evaluate(
                """() => {
                  const one = document.activeElement;
                  const marked = one.matches('.switch input') ? one.nextElementSibling : one;
                  const style = getComputedStyle(marked);
                  return {id: one.id, text: one.textContent.trim().slice(0, 60), name: one.name ?? '',
                          seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2};
                }"""
            )
        )


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The installed Chromium, without a screen."""
    found = shutil.which("chromium")
    require(found is not None, "chromium (apt-get install chromium)")
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])  # we may be root
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def watched(browser: Browser, url: str, *, expect_live: bool = True) -> Iterator[Watched]:
    """Open the page. Fails at the end when it logged an error or asked anything of anybody else."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(WITHIN_MS)
    one = Watched(page, url)
    page.on("console", lambda said: one.faults.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: one.faults.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((url, "about:")) else one.faults.append(f"asked {request.url}")
        ),
    )
    try:
        page.goto(url)
        if expect_live:
            expect(page.locator("#live")).to_have_text("live")
        yield one
    finally:
        context.close()
    assert one.faults == []
