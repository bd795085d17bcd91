"use strict";(self.rspackChunktheseus_jupyter=self.rspackChunktheseus_jupyter||[]).push([["style_index_js"],{"./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/card.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=(r.n(n))()(o());a.push([e.id,`/* The card of a run. */
[data-jp-theme-light="false"] .jp-theseus-run { color-scheme: dark; }
.jp-theseus-run .t-card { padding: 8px 10px 6px; display: flex; flex-direction: column; gap: 6px; min-width: 0; }
.jp-theseus-run .t-head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; }
.jp-theseus-run .t-name { font-weight: 600; overflow-wrap: anywhere; }
.jp-theseus-run .t-id { font-family: var(--t-mono); font-size: 12px; color: var(--t-muted); }
.jp-theseus-run .t-quiet, .jp-theseus-run .t-where { color: var(--t-muted); }
.jp-theseus-run .t-state { white-space: nowrap; }
.jp-theseus-run .t-shape { display: inline-block; min-width: 1.2em; color: var(--t-now, var(--t-muted)); }
.jp-theseus-run .t-is-running { --t-now: var(--t-accent); }
.jp-theseus-run .t-is-finished { --t-now: var(--t-good); }
.jp-theseus-run .t-is-failed, .jp-theseus-run .t-is-lost { --t-now: var(--t-bad); }
.jp-theseus-run .t-is-cancelled { --t-now: var(--t-warn); }
.jp-theseus-run .t-bar { height: 5px; border-radius: 3px; background: var(--t-line); overflow: hidden; }
.jp-theseus-run .t-bar > div { height: 100%; background: var(--t-now, var(--t-muted)); }
.jp-theseus-run .t-under { margin-top: 2px; display: flex; flex-wrap: wrap; gap: 0 12px; color: var(--t-muted); font-size: 12px; font-variant-numeric: tabular-nums; }
.jp-theseus-run .t-progress[hidden], .jp-theseus-run .t-trouble[hidden], .jp-theseus-run .t-answer[hidden],
.jp-theseus-run .t-ask[hidden], .jp-theseus-run .t-compare[hidden], .jp-theseus-run .t-part[hidden], .jp-theseus-run .t-empty[hidden],
.jp-theseus-run button[hidden] { display: none; }
.jp-theseus-run .t-line { display: flex; flex-wrap: wrap; align-items: flex-end; gap: 6px 20px; }
.jp-theseus-run .t-facts { display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 0; flex: 1; }
.jp-theseus-run .t-facts dt { float: none; width: auto; margin: 0; padding: 0; color: var(--t-muted); font-size: 11px; font-weight: 400; line-height: 1.3; }
.jp-theseus-run .t-facts dd { margin: 0; float: none; width: auto; padding: 0; font-variant-numeric: tabular-nums; white-space: nowrap; }
.jp-theseus-run .t-segments { display: inline-flex; }
.jp-theseus-run .t-segments button { border-radius: 0; margin-left: -1px; font-size: 12px; }
.jp-theseus-run .t-segments button:first-child { border-radius: 3px 0 0 3px; }
.jp-theseus-run .t-segments button:last-child { border-radius: 0 3px 3px 0; }
.jp-theseus-run .t-segments button[aria-pressed="true"] { color: var(--t-accent); border-color: var(--t-accent); position: relative; }
.jp-theseus-run .t-trouble { border-left: 3px solid var(--t-line); padding: 3px 8px; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 200px; overflow: auto; }
.jp-theseus-run .t-trouble.t-bad { border-left-color: var(--t-bad); font-family: var(--t-mono); font-size: 12px; }
.jp-theseus-run .t-body { display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px 14px; }
@container (min-width: 860px) {
  .jp-theseus-run .t-body.t-both { grid-template-columns: minmax(0, 5fr) minmax(0, 6fr); }
}
.jp-theseus-run .t-part { min-width: 0; }
.jp-theseus-run .t-compare { font-size: 12px; margin-top: 2px; max-height: 160px; overflow: auto; }
.jp-theseus-run .t-compare summary { color: var(--t-muted); cursor: pointer; width: max-content; }
.jp-theseus-run .t-compare label { display: block; padding-left: 14px; }
.jp-theseus-run .t-buttons { display: flex; flex-wrap: wrap; gap: 4px 6px; }
.jp-theseus-run .t-ask { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 10px; margin-top: 6px; padding: 6px 8px; background: var(--t-back-2); border-radius: 3px; }
.jp-theseus-run .t-ask .t-danger { color: var(--t-bad); border-color: var(--t-bad); }
.jp-theseus-run .t-code { margin: 0; flex: 1; font-family: var(--t-mono); font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; background: none; color: inherit; }
.jp-theseus-run .t-answer { margin-top: 4px; padding: 2px 8px; border-left: 3px solid var(--t-accent); white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
.jp-theseus-run .t-answer.t-bad { border-left-color: var(--t-bad); }
.jp-theseus-run .t-foot { color: var(--t-muted); font-family: var(--t-mono); font-size: 11px; overflow-wrap: anywhere; }
/* The durable form of the same run, beside a card that lives: only one of them is looked at. */
.jp-OutputArea:has(.jp-theseus-run) .jp-OutputArea-child:has(.theseus-record) { display: none; }
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/chart.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=(r.n(n))()(o());a.push([e.id,`/* Curves: the colours of the lines differ in lightness too, and validation is dashed. */
.jp-theseus-run {
  --t-s0: #1f6fb5; --t-s1: #c8501e; --t-s2: #2a7a34; --t-s3: #8a2a9b; --t-s4: #855300; --t-s5: #0b6a74;
}
[data-jp-theme-light="false"] .jp-theseus-run,
.vscode-dark .jp-theseus-run {
  --t-s0: #6cb2f2; --t-s1: #ff9d6c; --t-s2: #7bd88a; --t-s3: #e29bf0; --t-s4: #e6b450; --t-s5: #62d0dc;
}
.jp-theseus-run .t-chart { display: flex; flex-direction: column; min-width: 0; }
.jp-theseus-run .t-chartbar { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 10px; min-height: 24px; padding: 0 0 4px; font-size: 12px; }
.jp-theseus-run .t-chartbar label { display: inline-flex; align-items: center; gap: 4px; color: var(--t-muted); white-space: nowrap; }
.jp-theseus-run .t-chartbar input[type="range"] { width: 72px; padding: 0; border: 0; accent-color: var(--t-accent); }
.jp-theseus-run .t-chartbar input[type="checkbox"] { accent-color: var(--t-accent); margin: 0; }
.jp-theseus-run .t-chartbar select { font-family: inherit; font-size: 12px; height: 22px; }
.jp-theseus-run .t-amount { min-width: 26px; font-variant-numeric: tabular-nums; }
.jp-theseus-run .t-legend { display: flex; flex-wrap: wrap; gap: 2px 12px; }
.jp-theseus-run .t-key { display: inline-flex; align-items: center; gap: 5px; }
.jp-theseus-run .t-key i { width: 16px; border-top: 2px solid currentColor; }
.jp-theseus-run .t-key.t-held i { border-top-style: dashed; }
.jp-theseus-run .t-key.t-s0 i { color: var(--t-s0); } .jp-theseus-run .t-key.t-s1 i { color: var(--t-s1); }
.jp-theseus-run .t-key.t-s2 i { color: var(--t-s2); } .jp-theseus-run .t-key.t-s3 i { color: var(--t-s3); }
.jp-theseus-run .t-key.t-s4 i { color: var(--t-s4); } .jp-theseus-run .t-key.t-s5 i { color: var(--t-s5); }
.jp-theseus-run .t-stage { position: relative; min-width: 0; }
.jp-theseus-run .t-stage[hidden], .jp-theseus-run .t-chartbar[hidden] { display: none; }
.jp-theseus-run .t-canvas { display: block; width: 100%; height: 220px; font-family: var(--jp-ui-font-family, system-ui, sans-serif); }
.jp-theseus-run .t-point {
  position: absolute; top: 6px; right: 12px; max-width: 70%; padding: 0 6px; border: 1px solid var(--t-line); border-radius: 3px;
  background: var(--t-back); font-size: 12px; font-variant-numeric: tabular-nums; pointer-events: none;
}
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/log.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=(r.n(n))()(o());a.push([e.id,`/* The colours of a log: each with a contrast of at least 4.5 to the ground of its theme, and of
   each ground (--t-b…) to the colour of text. tests/notebook/test_terminal.py computes it. */
.jp-theseus-run {
  --t-c0: #3c4149; --t-c1: #b3261e; --t-c2: #1b6e2d; --t-c3: #855300;
  --t-c4: #1a56b0; --t-c5: #8a2a9b; --t-c6: #0b6a74; --t-c7: #5a6169;
  --t-c8: #646b74; --t-c9: #c62828; --t-c10: #2a7a34; --t-c11: #96580a;
  --t-c12: #2563c4; --t-c13: #9c36b0; --t-c14: #127782; --t-c15: #3c4149;
  --t-b0: #d9dce1; --t-b1: #ffd6d2; --t-b2: #cdeccf; --t-b3: #fbe3b3;
  --t-b4: #cfe0fb; --t-b5: #f0d3f5; --t-b6: #c8ebee; --t-b7: #e4e7ea;
  --t-b8: #dfe2e6; --t-b9: #ffdfdc; --t-b10: #d8f2d9; --t-b11: #fdebc6;
  --t-b12: #dae7fc; --t-b13: #f4dff8; --t-b14: #d6f1f3; --t-b15: #eceef0;
  --t-dimmed: #646b74;
}
[data-jp-theme-light="false"] .jp-theseus-run,
.vscode-dark .jp-theseus-run {
  --t-c0: #9aa2ac; --t-c1: #ff8a80; --t-c2: #7bd88a; --t-c3: #e6b450;
  --t-c4: #7fb4ff; --t-c5: #e29bf0; --t-c6: #62d0dc; --t-c7: #d3d7dc;
  --t-c8: #9aa2ac; --t-c9: #ff9e96; --t-c10: #97e5a3; --t-c11: #f3c76f;
  --t-c12: #9cc5ff; --t-c13: #ecb4f7; --t-c14: #85dfe9; --t-c15: #eceff2;
  --t-b0: #2a2f36; --t-b1: #6a211c; --t-b2: #1d4d27; --t-b3: #5a4210;
  --t-b4: #1f3f73; --t-b5: #5a2766; --t-b6: #134a51; --t-b7: #3a4048;
  --t-b8: #363c44; --t-b9: #7a2a24; --t-b10: #265c31; --t-b11: #664c16;
  --t-b12: #294b83; --t-b13: #683074; --t-b14: #1a565e; --t-b15: #454c55;
  --t-dimmed: #9aa2ac;
}

.jp-theseus-run .t-log { display: flex; flex-direction: column; min-width: 0; height: 100%; }
.jp-theseus-run .t-logbar { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 6px; padding: 0 0 4px; min-height: 24px; }
.jp-theseus-run .t-push { flex: 1; }
.jp-theseus-run .t-follow, .jp-theseus-run .t-tabs button { font-size: 12px; }
.jp-theseus-run .t-follow:disabled { border-color: transparent; padding-left: 0; background: none; }
.jp-theseus-run .t-follow:not(:disabled) { color: var(--t-accent); border-color: var(--t-accent); }
.jp-theseus-run .t-tabs { display: flex; gap: 2px; }
.jp-theseus-run .t-tabs button[aria-pressed="true"] { border-color: var(--t-accent); color: var(--t-accent); }
.jp-theseus-run .t-search { display: flex; align-items: center; gap: 4px; }
.jp-theseus-run .t-search input[type="search"] { width: 150px; font-size: 12px; height: 22px; }
.jp-theseus-run .t-found { color: var(--t-muted); font-size: 12px; font-variant-numeric: tabular-nums; white-space: nowrap; }
.jp-theseus-run .t-lanes { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 6px; flex: 1; min-height: 0; }
.jp-theseus-run .t-lanes[hidden], .jp-theseus-run .t-lane[hidden], .jp-theseus-run .t-tabs[hidden] { display: none; }
.jp-theseus-run .t-lane { display: flex; flex-direction: column; min-width: 0; min-height: 0; }
.jp-theseus-run .t-lane-name { color: var(--t-muted); font-size: 11px; }
.jp-theseus-run .t-lane:only-child .t-lane-name { display: none; }
.jp-theseus-run .t-view {
  position: relative; overflow: auto; flex: 1 0 auto; height: 252px; min-height: 90px; resize: vertical;
  border: 1px solid var(--t-line); border-radius: 3px; background: var(--t-back);
  font-family: var(--t-mono); font-size: 12px; line-height: 18px; padding: 2px 0; contain: strict; box-sizing: border-box;
}
.jp-theseus-run .t-space { position: relative; min-width: 100%; }
.jp-theseus-run .t-rows { position: absolute; left: 0; min-width: 100%; }
.jp-theseus-run .t-row { height: 18px; white-space: pre; padding: 0 8px; font-family: var(--t-mono); font-size: 12px; line-height: 18px; tab-size: 8; }
.jp-theseus-run .t-row.t-current { background: var(--t-back-2); box-shadow: inset 2px 0 var(--t-accent); }
.jp-theseus-run .t-row mark { background: #ffe08a; color: #212121; border-radius: 2px; }
.jp-theseus-run .t-empty { color: var(--t-muted); padding: 12px 8px; border: 1px dashed var(--t-line); border-radius: 3px; }
.jp-theseus-run .t-note { color: var(--t-dimmed); font-style: italic; }
.jp-theseus-run .t-control { color: var(--t-dimmed); border-bottom: 1px dotted currentColor; }
.jp-theseus-run .t-dim { color: var(--t-dimmed); }
.jp-theseus-run .t-bold { font-weight: 600; }
.jp-theseus-run .t-italic { font-style: italic; }
.jp-theseus-run .t-underline { text-decoration: underline; }
.jp-theseus-run .t-strike { text-decoration: line-through; }
.jp-theseus-run .t-inverse { color: var(--t-back); background: var(--t-text); }
.jp-theseus-run .t-sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

.jp-theseus-run .t-c0 { color: var(--t-c0); }
.jp-theseus-run .t-c1 { color: var(--t-c1); }
.jp-theseus-run .t-c2 { color: var(--t-c2); }
.jp-theseus-run .t-c3 { color: var(--t-c3); }
.jp-theseus-run .t-c4 { color: var(--t-c4); }
.jp-theseus-run .t-c5 { color: var(--t-c5); }
.jp-theseus-run .t-c6 { color: var(--t-c6); }
.jp-theseus-run .t-c7 { color: var(--t-c7); }
.jp-theseus-run .t-c8 { color: var(--t-c8); }
.jp-theseus-run .t-c9 { color: var(--t-c9); }
.jp-theseus-run .t-c10 { color: var(--t-c10); }
.jp-theseus-run .t-c11 { color: var(--t-c11); }
.jp-theseus-run .t-c12 { color: var(--t-c12); }
.jp-theseus-run .t-c13 { color: var(--t-c13); }
.jp-theseus-run .t-c14 { color: var(--t-c14); }
.jp-theseus-run .t-c15 { color: var(--t-c15); }
.jp-theseus-run .t-b0 { background: var(--t-b0); }
.jp-theseus-run .t-b1 { background: var(--t-b1); }
.jp-theseus-run .t-b2 { background: var(--t-b2); }
.jp-theseus-run .t-b3 { background: var(--t-b3); }
.jp-theseus-run .t-b4 { background: var(--t-b4); }
.jp-theseus-run .t-b5 { background: var(--t-b5); }
.jp-theseus-run .t-b6 { background: var(--t-b6); }
.jp-theseus-run .t-b7 { background: var(--t-b7); }
.jp-theseus-run .t-b8 { background: var(--t-b8); }
.jp-theseus-run .t-b9 { background: var(--t-b9); }
.jp-theseus-run .t-b10 { background: var(--t-b10); }
.jp-theseus-run .t-b11 { background: var(--t-b11); }
.jp-theseus-run .t-b12 { background: var(--t-b12); }
.jp-theseus-run .t-b13 { background: var(--t-b13); }
.jp-theseus-run .t-b14 { background: var(--t-b14); }
.jp-theseus-run .t-b15 { background: var(--t-b15); }
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/theme.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=(r.n(n))()(o());a.push([e.id,`/* What all widgets share. The colours are JupyterLab's, with our own where it is not there. */
.jp-theseus {
  --t-text: var(--jp-ui-font-color1, light-dark(#1f2328, #e6e6e6));
  --t-muted: var(--jp-ui-font-color2, light-dark(#5c636b, #a3a9b0));
  --t-back: var(--jp-layout-color1, light-dark(#ffffff, #111418));
  --t-back-2: var(--jp-layout-color2, light-dark(#f3f4f6, #1c2127));
  --t-line: var(--jp-border-color2, light-dark(#d8dce1, #363c44));
  --t-accent: var(--jp-brand-color1, light-dark(#1565c0, #64b5f6));
  --t-accent-text: var(--jp-ui-inverse-font-color0, light-dark(#ffffff, #10161d));
  --t-good: var(--jp-success-color1, light-dark(#2e7d32, #81c784));
  --t-warn: var(--jp-warn-color1, light-dark(#b45309, #ffb74d));
  --t-bad: var(--jp-error-color1, light-dark(#c62828, #ef9a9a));
  --t-mono: var(--jp-code-font-family, ui-monospace, monospace);
  --t-size: var(--jp-ui-font-size1, 13px);

  color: var(--t-text);
  background: var(--t-back);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--t-size);
  line-height: 1.45;
  border: 1px solid var(--t-line);
  border-radius: 4px;
  container-type: inline-size;
}
.jp-theseus *:focus-visible {
  outline: 2px solid var(--t-accent);
  outline-offset: 1px;
}
.jp-theseus button {
  font: inherit;
  color: var(--t-text);
  background: var(--t-back);
  border: 1px solid var(--t-line);
  border-radius: 3px;
  padding: 1px 8px;
  cursor: pointer;
}
.jp-theseus button:disabled {
  color: var(--t-muted);
  cursor: default;
}
.jp-theseus button.primary {
  color: var(--t-accent-text);
  background: var(--t-accent);
  border-color: var(--t-accent);
}
.jp-theseus input:not([type="checkbox"]),
.jp-theseus select,
.jp-theseus textarea {
  font: inherit;
  font-family: var(--t-mono);
  color: var(--t-text);
  background: var(--t-back);
  border: 1px solid var(--t-line);
  border-radius: 3px;
  padding: 0 4px;
  box-sizing: border-box;
}
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/cjs.js!./style/cells.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=(r.n(n))()(o());a.push([e.id,`/* The colours are those that JupyterLab gives to the same things in any other language. */

.jp-theseus-cell-plain,
.jp-theseus-cell-mark {
  color: var(--jp-mirror-editor-variable-color, var(--jp-content-font-color1));
  font-weight: normal;
}

.jp-theseus-cell-magic {
  color: var(--jp-mirror-editor-meta-color);
  font-weight: bold;
}

.jp-theseus-cell-job {
  color: var(--jp-mirror-editor-def-color);
  font-weight: normal;
}

.jp-theseus-cell-option,
.jp-theseus-cell-key {
  color: var(--jp-mirror-editor-property-color);
  font-weight: normal;
}

.jp-theseus-cell-string {
  color: var(--jp-mirror-editor-string-color);
  font-weight: normal;
}

.jp-theseus-cell-number {
  color: var(--jp-mirror-editor-number-color);
  font-weight: normal;
}

.jp-theseus-cell-constant {
  color: var(--jp-mirror-editor-keyword-color);
  font-weight: bold;
}

.jp-theseus-cell-reference {
  color: var(--jp-mirror-editor-attribute-color);
  font-weight: normal;
}

.jp-theseus-cell-comment {
  color: var(--jp-mirror-editor-comment-color);
  font-style: italic;
  font-weight: normal;
}

/* Python's own marks lie inside of ours. */
.cm-line [class*='jp-theseus-cell-'] span:not([class*='jp-theseus-cell-']) {
  color: inherit;
  font-style: inherit;
  font-weight: inherit;
}

.jp-theseus-cell-mistake {
  text-decoration: underline wavy var(--jp-error-color1);
  text-decoration-skip-ink: none;
  text-underline-offset: 3px;
}

.jp-theseus-cell-tip {
  background: var(--jp-layout-color1);
  border: var(--jp-border-width) solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  box-shadow: var(--jp-elevation-z2);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  line-height: 1.4;
  max-width: 480px;
  max-height: 200px;
  overflow: auto;
  padding: 6px 10px;
}

.jp-theseus-cell-tip.jp-mod-mistake {
  border-left: 3px solid var(--jp-error-color1);
}

.jp-theseus-cell-message {
  overflow-wrap: anywhere;
  white-space: pre-wrap;
}

.jp-theseus-cell-head {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 10px;
  align-items: baseline;
}

.jp-theseus-cell-type {
  color: var(--jp-ui-font-color2);
}

.jp-theseus-cell-fix {
  background: var(--jp-layout-color2);
  border: var(--jp-border-width) solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  color: var(--jp-ui-font-color1);
  cursor: pointer;
  font: inherit;
  margin-top: 6px;
  padding: 2px 8px;
}

.jp-theseus-cell-fix:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
}
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/cjs.js!./style/index.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=r.n(n),i=r("./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/theme.css"),p=r("./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/chart.css"),l=r("./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/log.css"),u=r("./node_modules/css-loader/dist/cjs.js!../theseus/notebook/static/card.css"),d=r("./node_modules/css-loader/dist/cjs.js!./style/cells.css"),c=r("./node_modules/css-loader/dist/cjs.js!./style/panel.css"),h=r("./node_modules/css-loader/dist/cjs.js!./style/run.css"),f=a()(o());f.i(i.A),f.i(p.A),f.i(l.A),f.i(u.A),f.i(d.A),f.i(c.A),f.i(h.A),f.push([e.id,`
`,""]),r.d(t,{},{A:f})},"./node_modules/css-loader/dist/cjs.js!./style/panel.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=(r.n(n))()(o());a.push([e.id,`/* The panel in the side bar. */

.jp-theseus-panel {
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  display: flex;
  flex-direction: column;
  font-size: var(--jp-ui-font-size1);
  gap: 4px;
  line-height: 1.4;
  min-width: 220px;
  overflow: hidden auto;
  padding: 8px 0;
}

.jp-theseus-panel [hidden] {
  display: none;
}

.jp-theseus-panel h2 {
  font-size: var(--jp-ui-font-size0);
  font-weight: 600;
  letter-spacing: 0.05em;
  margin: 0;
  text-transform: uppercase;
}

.jp-theseus-panel h3 {
  color: var(--jp-ui-font-color2);
  font-size: var(--jp-ui-font-size0);
  font-weight: 600;
  margin: 8px 12px 2px;
  overflow-wrap: anywhere;
}

.jp-theseus-panel .t-tools {
  align-items: center;
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  padding: 2px 12px;
}

.jp-theseus-panel .t-tools label {
  color: var(--jp-ui-font-color2);
  white-space: nowrap;
}

.jp-theseus-panel :is(.t-tools button, .t-tools select, .t-tools input[type='search']) {
  background: var(--jp-layout-color1);
  border: var(--jp-border-width) solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  color: var(--jp-ui-font-color1);
  font: inherit;
  padding: 1px 6px;
}

.jp-theseus-panel .t-tools input[type='search'] {
  flex: 1 1 60px;
  min-width: 0;
}

.jp-theseus-panel *:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

.jp-theseus-panel .t-push {
  flex: 1 1 0;
}

.jp-theseus-panel .t-told {
  color: var(--jp-ui-font-color2);
  padding: 6px 12px;
  white-space: pre-wrap;
}

.jp-theseus-panel .t-told.t-bad {
  border-left: 3px solid var(--jp-error-color1);
  color: var(--jp-ui-font-color1);
  margin: 4px 12px;
  padding: 2px 8px;
}

.jp-theseus-panel .t-row {
  border-bottom: var(--jp-border-width) solid var(--jp-border-color3);
  padding: 5px 12px;
}

.jp-theseus-panel .t-row:hover {
  background: var(--jp-layout-color2);
}

.jp-theseus-panel .t-line {
  align-items: baseline;
  display: flex;
  gap: 2px 8px;
  min-width: 0;
}

.jp-theseus-panel .t-line code {
  color: var(--jp-ui-font-color2);
  font-size: var(--jp-ui-font-size0);
}

.jp-theseus-panel .t-open {
  background: none;
  border: none;
  color: inherit;
  cursor: pointer;
  font: inherit;
  font-weight: 600;
  min-width: 0;
  overflow: hidden;
  padding: 0;
  text-align: left;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.jp-theseus-panel .t-open:hover {
  text-decoration: underline;
}

.jp-theseus-panel .t-more {
  background: none;
  border: none;
  border-radius: var(--jp-border-radius);
  color: var(--jp-ui-font-color2);
  cursor: pointer;
  font: inherit;
  line-height: 1;
  padding: 2px 6px;
}

.jp-theseus-panel .t-more:hover {
  background: var(--jp-layout-color3);
}

.jp-theseus-panel .t-badge {
  white-space: nowrap;
}

.jp-theseus-panel .t-badge > span {
  color: var(--jp-ui-font-color2);
}

.jp-theseus-panel .t-is-running > span {
  color: var(--jp-brand-color1);
}

.jp-theseus-panel .t-is-finished > span {
  color: var(--jp-success-color1);
}

.jp-theseus-panel :is(.t-is-failed, .t-is-lost) > span {
  color: var(--jp-error-color1);
}

.jp-theseus-panel .t-is-cancelled > span {
  color: var(--jp-warn-color1);
}

.jp-theseus-panel :is(.t-time, .t-quiet, .t-reason) {
  color: var(--jp-ui-font-color2);
  font-variant-numeric: tabular-nums;
}

.jp-theseus-panel .t-time {
  white-space: nowrap;
}

.jp-theseus-panel .t-badge + span {
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.jp-theseus-panel .t-reason {
  overflow-wrap: anywhere;
}

.jp-theseus-panel .t-last {
  color: var(--jp-ui-font-color2);
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-ui-font-size0);
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.jp-theseus-panel .t-trouble {
  border-left: 2px solid var(--jp-error-color1);
  max-height: 3.2em;
  overflow: hidden;
  overflow-wrap: anywhere;
  padding-left: 6px;
}

.jp-theseus-panel .t-bar {
  background: var(--jp-layout-color3);
  border-radius: 2px;
  height: 3px;
  margin: 2px 0;
  overflow: hidden;
}

.jp-theseus-panel .t-bar > div {
  background: var(--jp-brand-color1);
  height: 100%;
}

.jp-theseus-panel .t-squares {
  color: var(--jp-brand-color1);
  letter-spacing: 1px;
}

.jp-theseus-panel .t-hosts {
  margin-top: 12px;
}

.jp-theseus-spark {
  align-self: center;
  flex: none;
  fill: none;
  overflow: visible;
  stroke: var(--jp-brand-color1);
  stroke-linejoin: round;
  stroke-width: 1.2;
}
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/cjs.js!./style/run.css"(e,t,r){var s=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),o=r.n(s),n=r("./node_modules/css-loader/dist/runtime/api.js"),a=(r.n(n))()(o());a.push([e.id,`/* The log document, a kept run below a cell, and the doctor's table. */

.jp-theseus-run-view {
  overflow: auto;
  background: var(--jp-layout-color1);
}

.jp-MainAreaWidget .jp-theseus-run-view > .jp-theseus {
  border: none;
  border-radius: 0;
  min-height: 100%;
}

/* In a document of its own the log takes the height that is left. */
.jp-MainAreaWidget .jp-theseus-run-view :is(.jp-theseus-run, .t-card) {
  box-sizing: border-box;
  height: 100%;
  min-height: 480px;
}

.jp-MainAreaWidget .jp-theseus-run-view .t-body {
  flex: 1;
  grid-auto-rows: auto minmax(160px, 1fr);
  min-height: 0;
}

.jp-MainAreaWidget .jp-theseus-run-view .t-body.t-log {
  grid-template-rows: minmax(160px, 1fr);
}

@container (min-width: 860px) {
  .jp-MainAreaWidget .jp-theseus-run-view .t-body.t-both {
    grid-template-rows: minmax(160px, 1fr);
  }
}

.jp-MainAreaWidget .jp-theseus-run-view .t-logs .t-view {
  flex: 1 1 0;
  height: auto;
  resize: none;
}

.jp-theseus-kept {
  width: 100%;
}

.jp-theseus-doctor table {
  border-collapse: collapse;
  font-size: var(--jp-ui-font-size1);
}

.jp-theseus-doctor :is(th, td) {
  font-weight: normal;
  padding: 3px 12px 3px 0;
  text-align: left;
  vertical-align: top;
}

.jp-theseus-doctor .t-fix {
  color: var(--jp-ui-font-color2);
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-code-font-size);
  white-space: pre-wrap;
}

.jp-theseus-doctor .t-is-broken td:first-child {
  color: var(--jp-error-color1);
}

.jp-theseus-doctor .t-is-warning td:first-child {
  color: var(--jp-warn-color1);
}
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/runtime/api.js"(e){e.exports=function(e){var t=[];return t.toString=function(){return this.map(function(t){var r="",s=void 0!==t[5];return t[4]&&(r+="@supports (".concat(t[4],") {")),t[2]&&(r+="@media ".concat(t[2]," {")),s&&(r+="@layer".concat(t[5].length>0?" ".concat(t[5]):""," {")),r+=e(t),s&&(r+="}"),t[2]&&(r+="}"),t[4]&&(r+="}"),r}).join("")},t.i=function(e,r,s,o,n){"string"==typeof e&&(e=[[null,e,void 0]]);var a={};if(s)for(var i=0;i<this.length;i++){var p=this[i][0];null!=p&&(a[p]=!0)}for(var l=0;l<e.length;l++){var u=[].concat(e[l]);s&&a[u[0]]||(void 0!==n&&(void 0===u[5]||(u[1]="@layer".concat(u[5].length>0?" ".concat(u[5]):""," {").concat(u[1],"}")),u[5]=n),r&&(u[2]&&(u[1]="@media ".concat(u[2]," {").concat(u[1],"}")),u[2]=r),o&&(u[4]?(u[1]="@supports (".concat(u[4],") {").concat(u[1],"}"),u[4]=o):u[4]="".concat(o)),t.push(u))}},t}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(e){e.exports=function(e){return e[1]}},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(e){var t=[];function r(e){for(var r=-1,s=0;s<t.length;s++)if(t[s].identifier===e){r=s;break}return r}function s(e,s){for(var o={},n=[],a=0;a<e.length;a++){var i=e[a],p=s.base?i[0]+s.base:i[0],l=o[p]||0,u="".concat(p," ").concat(l);o[p]=l+1;var d=r(u),c={css:i[1],media:i[2],sourceMap:i[3],supports:i[4],layer:i[5]};if(-1!==d)t[d].references++,t[d].updater(c);else{var h=function(e,t){var r=t.domAPI(t);return r.update(e),function(t){t?(t.css!==e.css||t.media!==e.media||t.sourceMap!==e.sourceMap||t.supports!==e.supports||t.layer!==e.layer)&&r.update(e=t):r.remove()}}(c,s);s.byIndex=a,t.splice(a,0,{identifier:u,updater:h,references:1})}n.push(u)}return n}e.exports=function(e,o){var n=s(e=e||[],o=o||{});return function(e){e=e||[];for(var a=0;a<n.length;a++){var i=r(n[a]);t[i].references--}for(var p=s(e,o),l=0;l<n.length;l++){var u=r(n[l]);0===t[u].references&&(t[u].updater(),t.splice(u,1))}n=p}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(e){var t={};e.exports=function(e,r){var s=function(e){if(void 0===t[e]){var r=document.querySelector(e);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(e){r=null}t[e]=r}return t[e]}(e);if(!s)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");s.appendChild(r)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(e){e.exports=function(e){var t=document.createElement("style");return e.setAttributes(t,e.attributes),e.insert(t,e.options),t}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(e,t,r){e.exports=function(e){var t=r.nc;t&&e.setAttribute("nonce",t)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var t=e.insertStyleElement(e);return{update:function(r){var s,o,n;s="",r.supports&&(s+="@supports (".concat(r.supports,") {")),r.media&&(s+="@media ".concat(r.media," {")),(o=void 0!==r.layer)&&(s+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),s+=r.css,o&&(s+="}"),r.media&&(s+="}"),r.supports&&(s+="}"),(n=r.sourceMap)&&"u">typeof btoa&&(s+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(n))))," */")),e.styleTagTransform(s,t,e.options)},remove:function(){var e;null===(e=t).parentNode||e.parentNode.removeChild(e)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(e){e.exports=function(e,t){if(t.styleSheet)t.styleSheet.cssText=e;else{for(;t.firstChild;)t.removeChild(t.firstChild);t.appendChild(document.createTextNode(e))}}},"./style/index.js"(e,t,r){var s=r("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),o=r.n(s),n=r("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),a=r.n(n),i=r("./node_modules/style-loader/dist/runtime/insertBySelector.js"),p=r.n(i),l=r("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),u=r.n(l),d=r("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),c=r.n(d),h=r("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),f=r.n(h),j=r("./node_modules/css-loader/dist/cjs.js!./style/index.css"),b={};b.styleTagTransform=f(),b.setAttributes=u(),b.insert=p().bind(null,"head"),b.domAPI=a(),b.insertStyleElement=c(),o()(j.A,b),j.A&&j.A.locals&&j.A.locals}}]);