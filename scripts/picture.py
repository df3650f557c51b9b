#!/usr/bin/env python3
"""The first figure of a trial's report as a picture of its own, for README.md.

    scripts/picture.py out/trials/latest/report.html > docs/trial.svg
"""
import re
import sys
from pathlib import Path

LIGHT = {"paper": "#ffffff", "ink": "#1d1d1b", "soft": "#5a5a55", "grid": "#dedcd5", "predicted": "#7a3fc4", "whole": "#1466b8",
         "unprotected": "#b83c0a", "giusto": "#0b7048"}
DARK = {"paper": "#171715", "ink": "#ecebe6", "soft": "#a9a8a1", "grid": "#3a3935", "predicted": "#bd97f5", "whole": "#6cb4ff",
        "unprotected": "#ff9563", "giusto": "#4fd197"}


def main():
    page = Path(sys.argv[1]).read_text()
    figure = next(found for found in re.findall(r"<svg\b.*?</svg>", page, re.S) if "<title>" in found)
    wide, tall = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', figure).groups())
    style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    # What of the page's style is about figures.
    all_rules = re.findall(r"[^{}\n]+\{[^{}]*\}", style)
    of_figures = r"\s*(svg|\.curve|\.grid|\.predicted|\.whole|\.unprotected|\.giusto)\b"
    rules = [rule for rule in all_rules if re.match(of_figures, rule)]
    def colours(all_of):
        return ":root{" + "".join(f"--{name}:{value};" for name, value in all_of.items()) + "}"
    body = re.sub(r"^<svg[^>]*>|</svg>$", "", figure)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" font-family="sans-serif" font-size="12">')
    print(f"<style>{colours(LIGHT)}@media(prefers-color-scheme:dark){{{colours(DARK)}}}")
    print("".join(rules) + "</style>")
    print(body.strip() + "</svg>")


if __name__ == "__main__":
    main()
