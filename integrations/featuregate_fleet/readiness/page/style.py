"""How the page looks: on a screen in light and dark, on a phone and on paper. Pure."""

from __future__ import annotations

from typing import Final

STYLE: Final = """\
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--panel:#f6f8fa;--band:#dfe5ec;
--used:#1f5fa8;--gap:#eceff2;--s1:#b9d3ee;--s2:#7fb0e0;--s3:#3f83c8;--s4:#15508f;
--block:#b3261e;--unknown:#6b4fa0;--stale:#7a5c00;--warn:#9a4a00;--ok:#1a6b34}
@media (prefers-color-scheme:dark){:root{--page:#12161b;--ink:#e6edf3;--soft:#9da7b3;--line:#39424d;--panel:#1b2128;
--band:#2f3843;--used:#6cb0f5;--gap:#242b33;--s1:#23456b;--s2:#2f69a6;--s3:#4f97dd;--s4:#a5d1fb;
--block:#ff8a80;--unknown:#c3a6f5;--stale:#e3bf4a;--warn:#ffab66;--ok:#6fd08c}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:72rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2.25rem 0 .5rem}
h3{font-size:.95rem;margin:0 0 .25rem;overflow-wrap:anywhere}p{margin:.25rem 0 .75rem;max-width:48rem}
.soft,figcaption,footer{color:var(--soft);font-size:.875rem}
.block{--tone:var(--block)}.unknown{--tone:var(--unknown)}.stale{--tone:var(--stale)}
.warn{--tone:var(--warn)}.ok{--tone:var(--ok)}
.verdict{color:var(--tone);font-weight:700;white-space:nowrap}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;list-style:none;padding:0}
.cards li{border:1px solid var(--line);border-top:4px solid var(--tone);border-radius:6px;padding:.6rem .8rem}
.cards b{display:block;font-size:1.9rem;line-height:1.2}.cards .none b{color:var(--soft);font-weight:400}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:1rem}
.times{display:grid;gap:1rem}.times svg.hours{max-width:52rem}.times figure{overflow-x:auto}
figure{margin:0;border:1px solid var(--line);border-radius:6px;padding:.75rem;break-inside:avoid}
svg{display:block;width:100%;max-width:34rem;height:auto;font:11px system-ui,sans-serif}
svg.hours{max-width:none;min-width:40rem}
svg text{fill:var(--ink)}svg .tick{fill:var(--soft);text-anchor:middle}svg .api{text-anchor:end}
svg .first{text-anchor:start}svg .last{text-anchor:end}svg text.lost{fill:var(--block);font-weight:700}
.band{fill:var(--band)}.used{fill:var(--used)}rect.lost{fill:var(--block)}.gap{fill:var(--gap)}
.missing{fill:none;stroke:var(--block);stroke-width:2}
.late1,.late2{fill:var(--block);opacity:.55}.late3,.late4{fill:var(--block)}
.odd{fill:var(--s2)}.even{fill:var(--s1)}svg .level{fill:#10243a}
.shade1{fill:var(--s1)}.shade2{fill:var(--s2)}.shade3{fill:var(--s3)}.shade4{fill:var(--s4)}
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .8em;vertical-align:-.05em;background:var(--c);
print-color-adjust:exact;-webkit-print-color-adjust:exact}
.wide{overflow-x:auto;margin-bottom:1rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.4rem 1.1rem .4rem 0;border-bottom:1px solid var(--line);
overflow-wrap:anywhere}
th{font-weight:600}td.number,th.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.time,td.check{white-space:nowrap}tr{break-inside:avoid}td ul{margin:0;padding-left:1.1rem}
@media (max-width:40rem){.stack thead{display:none}.stack tr,.stack td{display:block}
.stack tr{border-bottom:1px solid var(--line);padding:.5rem 0}.stack td{border:0;padding:.1rem 0}
.stack td.number{text-align:left}.stack td[data-name]::before{content:attr(data-name) ": ";color:var(--soft)}}
@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--soft:#444;--line:#999;--panel:#fff;--band:#dfe5ec;
--used:#1f5fa8;--gap:#eceff2;--s1:#b9d3ee;--s2:#7fb0e0;--s3:#3f83c8;--s4:#15508f;
--block:#b3261e;--unknown:#6b4fa0;--stale:#7a5c00;--warn:#9a4a00;--ok:#1a6b34}
body{max-width:none;padding:0;font-size:10pt}.wide{overflow:visible}svg.hours{min-width:0}h2,h3{break-after:avoid}
.charts{grid-template-columns:1fr 1fr}}
"""
