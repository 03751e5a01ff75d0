"""How the report page looks: colours as the console has them, marks, and a style of its own for paper. Nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Mapping

TOKENS: Mapping[str, str] = {
    "canvas": "light-dark(#f8f5f1, #111219)",
    "surface": "light-dark(#fefdfa, #171921)",
    "sunken": "light-dark(#f0ede8, #0b0c11)",
    "line": "light-dark(#e1ddd5, #2c2e39)",
    "line-strong": "light-dark(#c2bdb2, #444755)",
    "line-ctl": "light-dark(#878893, #6a6e7e)",
    "text": "light-dark(#1a1d2c, #efece8)",
    "text-2": "light-dark(#494c5d, #b8bac2)",
    "text-3": "light-dark(#646774, #9396a2)",
    "accent": "light-dark(#bc5121, #e9884d)",
    "neutral-fg": "light-dark(#585a65, #c1c4cd)",
    "neutral-bg": "light-dark(#eff0f4, #252731)",
    "neutral-line": "light-dark(#ccd0e3, #484c5e)",
    "neutral-solid": "light-dark(#777a87, #9b9eaa)",
    "ok-fg": "light-dark(#266645, #9ed2b3)",
    "ok-bg": "light-dark(#e2f6e9, #132e1f)",
    "ok-line": "light-dark(#b2ddc3, #29583f)",
    "ok-solid": "light-dark(#3f8c63, #6cb089)",
    "warn-fg": "light-dark(#785301, #e1be88)",
    "warn-bg": "light-dark(#feeed6, #372300)",
    "warn-line": "light-dark(#eecb97, #684600)",
    "warn-solid": "light-dark(#ac7c26, #c2964f)",
    "danger-fg": "light-dark(#a22337, #ff9fa3)",
    "danger-bg": "light-dark(#ffe9e9, #3c1d1f)",
    "danger-line": "light-dark(#f9c1c1, #703b3d)",
    "danger-solid": "light-dark(#d3384e, #f66b75)",
}
"""Those of static/css/tokens.css that the page uses; a test holds them together."""

ICONS: Mapping[str, str] = {
    "okc": '<circle cx="8" cy="8" r="6"/><path d="M5.3 8.2l2 2 3.5-4"/>',
    "alert": '<path d="M8 2l6.3 11.3H1.7z"/><path d="M8 6.3v3.2M8 11.4v.1"/>',
    "xc": '<circle cx="8" cy="8" r="6"/><path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4"/>',
    "unknown": '<circle cx="8" cy="8" r="6"/><path d="M6.2 6.4A1.9 1.9 0 1 1 8 8.7M8 11.2v.1"/>',
    "check": '<path d="M3 8.5l3.3 3.3L13 4.5"/>',
    "minus": '<path d="M3.5 8h9"/>',
    "plus": '<path d="M3.5 8h9M8 3.5v9"/>',
    "swap": '<path d="M2.5 5.5h10M9.8 2.8l2.7 2.7M13.5 10.5h-10M6.2 7.8L3.5 10.5l2.7 2.7"/>',
    "end": '<path d="M4 14V2.5M4 3h8l-1.8 2.7L12 8.5H4"/>',
}
MARK = (
    '<svg class="mark" viewBox="0 0 20 20" aria-hidden="true"><path d="M5 1v6M5 13v6M15 1v6M15 13v6M10 5v10"/>'
    '<path class="w" d="M1 5h6M13 5h6M1 15h6M13 15h6M3 10h4.5M12.5 10H17M10 1v1.5M10 17.5V19"/></svg>'
)
"""The woven mark of the console."""


def sprite() -> str:
    """The marks, to be used by name."""
    symbols = "".join(f'<symbol id="i-{name}" viewBox="0 0 16 16">{drawn}</symbol>' for name, drawn in ICONS.items())
    return f'<svg width="0" height="0" aria-hidden="true" class="sprite">{symbols}</svg>'


def icon(name: str) -> str:
    """One of them."""
    return f'<svg class="icon" aria-hidden="true"><use href="#i-{name}"/></svg>'


def style() -> str:
    """The whole style sheet."""
    tones = "".join(
        f'[data-tone="{tone}"]{{--fg:var(--{tone}-fg);--bg:var(--{tone}-bg);--edge:var(--{tone}-line);--solid:var(--{tone}-solid)}}\n'
        for tone in ("neutral", "ok", "warn", "danger")
    )
    tokens = "".join(f"--{name}:{value};" for name, value in TOKENS.items())
    return f":root{{color-scheme:light dark;{tokens}}}\n{tones}{_PAGE}{_PAPER}"


_PAGE = """\
*{box-sizing:border-box;margin:0}
html{font:13px/1.45 "Inter","SF Pro Text","Segoe UI Variable Text","Segoe UI","Roboto","Noto Sans","Ubuntu","Cantarell",
"Liberation Sans",system-ui,sans-serif;-webkit-text-size-adjust:100%}
body{background:var(--canvas);color:var(--text);font-variant-numeric:tabular-nums;border-top:4px solid var(--accent)}
.page{max-width:1360px;margin:0 auto;padding:24px 24px 48px;display:grid;gap:16px}
.page>*{min-width:0}
h1{font-size:2rem;line-height:1.2;font-weight:600;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:1.23rem;line-height:1.3;font-weight:600}
h3{font-size:1rem;line-height:1.4;font-weight:600}
ul,ol{list-style:none;padding:0}
a{color:inherit;text-underline-offset:2px}
table{border-collapse:separate;border-spacing:0;width:100%}
th{text-align:left;font-weight:500}
.sprite{position:absolute}
.icon{width:1.08rem;height:1.08rem;flex:none;fill:none;stroke:currentColor;stroke-width:1.7;stroke-linecap:round;stroke-linejoin:round}
.vh{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.brand{display:flex;align-items:center;gap:8px;font-weight:600;color:var(--text-2)}
.brand span{font-weight:400;color:var(--text-3)}
.mark{width:20px;height:20px;fill:none;stroke:currentColor;stroke-width:2.6}
.mark .w{stroke:var(--accent)}
.head{display:grid;gap:8px}
.lede{max-width:76ch;color:var(--text-2);text-wrap:pretty}
.facts{display:flex;flex-wrap:wrap;gap:4px 24px;color:var(--text-3)}
.facts dt,.facts dd{display:inline}
.facts dd{color:var(--text);margin-left:6px}
.card{background:var(--surface);border:1px solid var(--line);border-radius:8px;overflow:clip}
.card>header{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 12px;padding:10px 16px;border-bottom:1px solid var(--line)}
.sub{color:var(--text-3);font-size:.92rem}
.tally{display:grid;gap:12px;padding:14px 16px}
.tally .row{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:end;gap:8px 24px}
.big{font-size:2rem;line-height:1;font-weight:600}
.big small{font-size:1.08rem;font-weight:400;color:var(--text-2)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px}
.score{display:flex;gap:2px;height:10px}
.score{width:100%}
.score rect{fill:var(--solid)}
.score i{flex:1;border-radius:2px;background:var(--solid)}
.score i[data-v=unknown]{background:repeating-linear-gradient(135deg,var(--solid) 0 2px,transparent 2px 4px);box-shadow:inset 0 0 0 1px var(--solid)}
.badge{display:inline-flex;align-items:center;gap:.38rem;height:1.54rem;padding:0 .54rem 0 .38rem;border-radius:3px;font-size:.92rem;line-height:1;
font-weight:500;white-space:nowrap;color:var(--fg);background:var(--bg);box-shadow:inset 0 0 0 1px var(--edge)}
.badge.plain{background:none;box-shadow:none;padding:0}
.not{display:grid}
.not li{display:grid;grid-template-columns:7rem minmax(13rem,20rem) minmax(0,1fr);gap:2px 16px;align-items:start;padding:8px 16px}
.not a,.not p{line-height:1.54rem}
.not a{justify-self:start}
.not li+li{border-top:1px solid var(--line)}
.not p{color:var(--text-2);overflow-wrap:anywhere}
.scroll{overflow-x:auto}
.matrix{table-layout:fixed}
.matrix col:first-child{width:14.6rem}
.matrix th,.matrix td{padding:8px 12px;vertical-align:top;border-top:1px solid var(--line);border-left:1px solid var(--line)}
.matrix tr>:first-child{border-left:0;padding-left:16px}
.matrix thead th{border-top:1px solid var(--line);color:var(--text-2);background:var(--sunken)}
.matrix a{text-decoration:none}
.matrix a:hover .badge{text-decoration:underline}
.matrix td[data-v=deviated]{background:var(--danger-bg)}
.matrix td[data-v=error],.matrix td[data-v=unknown]{outline:1px dashed var(--line-ctl);outline-offset:-4px}
.ladder{display:flex;flex-wrap:wrap;gap:3px 0;margin-top:6px}
.ladder li{display:inline-flex;align-items:center}
.ladder li+li::before{content:"";width:5px;height:1px;background:var(--line-ctl)}
.rung{display:inline-flex;gap:4px;padding:0 5px;border:1px solid var(--line);border-radius:3px;background:var(--surface);font-size:.85rem;line-height:1.31rem;white-space:nowrap}
.rung b{color:var(--text-3);font-weight:600}
.rung.skip{border-style:dashed;color:var(--text-3)}
.rung.end{border-right:3px solid var(--line-ctl)}
.words{margin-top:6px;color:var(--text-2);font-size:.92rem;overflow-wrap:anywhere}
.cells{display:grid;grid-template-columns:repeat(3,minmax(0,1fr))}
.cell{border-left:1px solid var(--line);padding:12px 0 6px;min-width:0;scroll-margin-top:12px}
.cell:first-child{border-left:0}
.cell:target{box-shadow:inset 0 2px var(--accent)}
.cell header{display:flex;flex-wrap:wrap;align-items:center;gap:4px 10px;padding:0 16px 8px}
.cell header .sub{margin-left:auto}
.note{margin:0 16px 8px;padding:7px 10px;border-left:3px solid var(--solid);background:var(--bg);overflow-wrap:anywhere}
.note .ladder,.note .words{margin-top:2px}
.note>b{display:block;color:var(--fg);font-weight:500}
.chain{table-layout:fixed}
.chain th,.chain td{padding:4px 6px;vertical-align:top;overflow-wrap:anywhere}
.chain thead th{color:var(--text-3);font-size:.92rem;border-bottom:1px solid var(--line)}
.chain tbody tr+tr>*{border-top:1px solid color-mix(in srgb,var(--line) 60%,transparent)}
.chain .n{width:2.9rem;padding-left:16px;color:var(--text-3)}
.chain .how{width:7.4rem;padding-right:16px}
.chain .dev>*{background:var(--danger-bg)}
.chain .dev .n{box-shadow:inset 3px 0 0 var(--danger-solid)}
.chain .same{color:var(--text-2)}
.chain .gone{color:var(--text-3)}
.fin{display:inline-flex;align-items:center;gap:5px;font-weight:500}
.fin .icon{width:.92rem;height:.92rem;color:var(--text-3)}
.foot{color:var(--text-3);font-size:.92rem;text-wrap:pretty}
@media (max-width:1080px){.cells{grid-template-columns:1fr}.cell{border-left:0}.cell+.cell{border-top:1px solid var(--line)}}
@media (max-width:700px){.page{padding:16px 12px 32px;gap:12px}h1{font-size:1.54rem}.not li{grid-template-columns:1fr}
.card>header,.tally,.not li{padding-left:12px;padding-right:12px}
.matrix{min-width:41rem}.matrix col:first-child{width:116px}
.matrix tr>:first-child{position:sticky;left:0;z-index:1;padding-left:12px;background:var(--surface);box-shadow:1px 0 var(--line)}
.matrix thead tr>:first-child{background:var(--sunken)}}
"""
_PAPER = """\
@media print{
@page{size:A4 landscape;margin:12mm}
:root{color-scheme:light}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
html{font-size:10px}
body{background:none}
.page{max-width:none;padding:0;gap:10px}
.card{overflow:visible;box-shadow:none}
.cells{grid-template-columns:repeat(3,minmax(0,1fr))}
.cell{border-left:1px solid var(--line)}
.cell+.cell{border-top:0}
.cell:first-child{border-left:0}
.matrix{min-width:0}
.matrix th,.matrix td{padding-top:4px;padding-bottom:4px}
.scroll{overflow:visible;break-inside:avoid}
tr,.not li,.tally,.cell,.note,.type{break-inside:avoid}
h1,h2,h3,thead,.card>header{break-after:avoid}
thead{display:table-header-group}
.lines,.type+.card:not(.type){break-before:page}
a{text-decoration:none}
}
"""
