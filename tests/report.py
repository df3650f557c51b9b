"""The reports of 'giusto verify' and 'giusto study', opened in a browser: on a phone, on a desk, on paper, by day and by night.

Chromium without a display is driven over a pipe (the DevTools protocol) and must make no request, say nothing on its console,
and find nothing wider than the window; every text must stand out from its ground (WCAG 2.1, 1.4.3), no label may lie on
another or beyond its drawing, every curve and its name must be seen without scrolling, and every drawing must have a name and
a description. Pictures stay in target/report. Installs chromium-headless-shell
(about 300 MB) where it is not there and this is root. Exit: 0 held, 1 not, 77 there is no browser."""
import base64
import json
import os
import random
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
GIUSTO = TARGET / "release" / "giusto"
OUT = TARGET / "report"
JOBS = 1_000_000
PACKAGE = "chromium-headless-shell"

# What is looked at in the page: anything wider than it, texts too faint, labels on labels or cut off, drawings without words,
# a title of curves below them.
LOOK = """(() => {
  const shown = node => { const box = node.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = colour => { const [r, g, b] = rgb(colour).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = node => { for (; node; node = node.parentElement) { const c = getComputedStyle(node).backgroundColor;
    if (rgb(c)[3] !== 0) return c; } return 'rgb(255, 255, 255)'; };
  const faint = [], small = [], crossing = [], mute = [], cut = [], below = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(), node = walk.currentNode.parentElement;
    if (!text || !shown(node) || ['STYLE', 'title', 'desc'].includes(node.tagName)) continue;
    const style = getComputedStyle(node), ink = node instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(ink), light(ground(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(text + ' ' + ink + ' on ' + ground(node));
    const drawing = node.closest('svg');
    const scale = drawing ? drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : 1;
    if (parseFloat(style.fontSize) * scale < 8.5) small.push(text);
  }
  for (const drawing of document.querySelectorAll('svg:not(.swatch)')) {
    if (!drawing.querySelector('title')?.textContent.trim()) mute.push('no title: ' + drawing.outerHTML.slice(0, 80));
    const all = [...drawing.querySelectorAll('text')].filter(shown).map(t => [t.textContent, t.getBoundingClientRect()]);
    all.forEach(([a, p], i) => all.slice(0, i).forEach(([b, q]) => {
      const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left), high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (wide > 1.5 && high > 4.5) crossing.push(a + ' / ' + b);
    }));
    const whole = drawing.getBoundingClientRect();
    for (const [text, box] of all) {
      const inside = box.left > whole.left - 1 && box.right < whole.right + 1
        && box.top > whole.top - 1 && box.bottom < whole.bottom + 1;
      if (!inside || drawing.matches('.curves') && box.right > innerWidth) cut.push(text);
    }
    const title = drawing.matches('.curves') && drawing.closest('figure').querySelector('figcaption');
    if (title && title.getBoundingClientRect().bottom > whole.top + 1) below.push(title.textContent);
  }
  for (const cell of document.querySelectorAll('thead th')) if (cell.scope !== 'col') mute.push('a head without scope');
  return { wide: document.documentElement.scrollWidth, window: innerWidth, faint, small, crossing, mute, cut, below,
    words: document.body.innerText, tall: document.documentElement.scrollHeight };
})()"""


def browser():
    """The program; installed where there is none."""
    for name in (PACKAGE, "chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {PACKAGE}, to look at the report")
        quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL}
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", PACKAGE], **quiet)
    if not shutil.which(PACKAGE):
        print(f"there is no browser: apt-get install {PACKAGE}")
        sys.exit(77)
    return shutil.which(PACKAGE)


class Chromium:
    """A browser that has no way out, and tells what it does over a pipe."""

    def __init__(self):
        to_read, self.to = os.pipe()
        self.of, of_write = os.pipe()

        def pipes():  # the protocol's places are descriptors 3 and 4; first away from there, lest one overwrite the other
            spare = [os.dup2(fd, place) for fd, place in ((to_read, 60), (of_write, 61))]
            for place, fd in zip((3, 4), spare):
                os.dup2(fd, place)

        profile = OUT / "profile"
        shutil.rmtree(profile, ignore_errors=True)
        self.process = subprocess.Popen(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars",
             "--proxy-server=127.0.0.1:9", "--disable-dev-shm-usage", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(of_write)
        self.number, self.buffer, self.events = 0, b"", []
        page = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = None
        self.session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.buffer:
            more = os.read(self.of, 1 << 20)
            if not more:
                sys.exit("the browser is gone")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **params):
        self.number += 1
        question = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            question["sessionId"] = self.session
        os.write(self.to, json.dumps(question).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, page, wide, scheme):
        """The page, a file or an address, as it shows, and what was asked for and said meanwhile."""
        url = page.as_uri() if isinstance(page, Path) else page
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=wide, height=800, deviceScaleFactor=1, mobile=wide < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        self.ask("Runtime.evaluate", expression="document.querySelectorAll('details').forEach(d => d.open = true)")
        look = self.value(LOOK)
        asked = [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        said = [event for event in self.events
                if event.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")]
        return look, [one for one in asked if one != url], said

    def value(self, expression):
        """What an expression gives in the page, also one that is only promised."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            sys.exit(f"{expression[:200]}: {told}")
        return told["result"].get("value")

    def picture(self, wide, tall):
        clip = {"x": 0, "y": 0, "width": wide, "height": tall, "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def paper(self):
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def close(self):
        self.process.terminate()
        self.process.wait()


def pixels(png):
    """First pixel, which is the ground, and the share of bytes that differ from their neighbours', which is what is on it."""
    data, at = b"", 8
    while at < len(png):
        size, kind = int.from_bytes(png[at:at + 4], "big"), png[at + 4:at + 8]
        data += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    raw = zlib.decompress(data)
    return sum(raw[1:4]) / 3, 1 - raw.count(0) / len(raw)


def write(file, seed, mean, jobs=JOBS):
    """Job records: a queue of one server with requests at random, so that neighbours are alike and the tail is long."""
    draw, at, free, lines = random.Random(seed), 0, 0, ["task,job,due_ns,release_ns,finish_ns"]
    for job in range(jobs):
        at += int(draw.expovariate(1 / 100_000))
        free = max(at, free) + 1000 + int(draw.expovariate(1 / mean))
        lines.append(f"0,{job},{at},{at},{free}")
    file.write_text("\n".join(lines) + "\n")
    return file


def giusto(*args, codes=(0,)):
    done = subprocess.run([GIUSTO, *map(str, args)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in codes, f"{args}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def reports():
    """One of each kind: a million jobs beside a million, a verdict, percentiles with a plan, a study."""
    large = [write(OUT / f"{name}.csv", seed, mean) for name, seed, mean in (("reference", 1, 50_000), ("measured", 2, 52_000))]
    few = [write(OUT / f"few{seed}.csv", seed, 50_000, 20_000) for seed in range(3, 7)]
    giusto("verify", *large, "--html", OUT / "two.html")
    yield "two", ["no verdict", "reference", "measured", "p99.9", "slowest"]
    giusto("verify", *few[:2], "--baseline", few[2], "--baseline", few[3], "--html", OUT / "alone.html", codes=(0, 6))
    yield "alone", ["promised:", "distance", "noise floor", "run 2", "kernel", "seed 1"]
    giusto("verify", few[0], "--promise", "p90=100us", "--promise", "p99=500us", "--html", OUT / "missed.html", codes=(5,))
    yield "missed", ["promise missed", "p90", "≤ 100 us", "measured", "statistics"]
    giusto("plan", "sites/percentiles.yaml", "--out", OUT / "plan.json")
    giusto("simulate", "sites/percentiles.yaml", "--for", "300s", "--jobs", OUT / "played.csv")
    giusto("verify", OUT / "played.csv", "--plan", OUT / "plan.json", "--html", OUT / "kept.html", codes=(0, 6))
    yield "kept", ["promised", "predicted", "p90", "≤ 20.0 ms", "measured", "What the plan was proven to keep"]
    giusto("study", "run", "csa-arinc", "--quick", "--html", "--out", OUT, codes=(0, 6))
    (OUT / "csa-arinc/report.html").rename(OUT / "study.html")
    yield "study", ["Claims", "Figures", "range of 3", "holds", "Tables", "seed"]


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    chromium = Chromium()
    try:
        for name, words in reports():
            file = OUT / f"{name}.html"
            assert file.stat().st_size < 1_000_000, f"{name}: {file.stat().st_size} bytes"
            grounds = {}
            for wide in (320, 360, 1280):
                for scheme in ("light", "dark"):
                    look, asked, said = chromium.open(file, wide, scheme)
                    where = f"{name}, {wide} px, {scheme}"
                    assert not asked and not said, f"{where}: asked for {asked}, said {said}"
                    assert look["wide"] <= look["window"] == wide, f"{where}: {look['wide']} px wide"
                    for fault in ("faint", "small", "crossing", "mute", "cut", "below"):
                        assert not look[fault], f"{where}: {fault}: {look[fault][:8]}"
                    missing = [word for word in words if word not in look["words"]]
                    assert not missing, f"{where}: without {missing}"
                    png = chromium.picture(wide, look["tall"])
                    (OUT / f"{name}-{wide}-{scheme}.png").write_bytes(png)
                    ground, drawn = pixels(png)
                    assert drawn > 0.005, f"{where}: blank"
                    grounds[scheme] = ground
            assert grounds["light"] > 200 > 60 > grounds["dark"], grounds
            pdf = chromium.paper()
            (OUT / f"{name}.pdf").write_bytes(pdf)
            assert pdf.startswith(b"%PDF") and b"/Type /Page" in pdf and len(pdf) > 10_000
            print(f"{name}: {file.stat().st_size // 1000} kB; three widths, light and dark, paper")
    finally:
        chromium.close()


if __name__ == "__main__":
    start = time.monotonic()
    main()
    print(f"passed in {time.monotonic() - start:.0f} s")
