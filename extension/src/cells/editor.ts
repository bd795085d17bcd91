/** `%%theseus` cells in the editor: colours, underlined mistakes, and what is shown on hover. */

import {
  Prec,
  StateEffect,
  StateField,
  type EditorState,
  type Extension
} from '@codemirror/state';
import {
  Decoration,
  EditorView,
  ViewPlugin,
  hoverTooltip,
  keymap,
  type DecorationSet,
  type Tooltip,
  type ViewUpdate
} from '@codemirror/view';

import { check, hover, type IExplained, type IMistake } from './ask';
import { isOurs, ranges } from './colour';

const PAUSE = 400; // ms without a key before the text is checked

// Colours

class Colours {
  decorations: DecorationSet;

  constructor(view: EditorView) {
    this.decorations = coloured(view.state);
  }

  update(update: ViewUpdate): void {
    if (update.docChanged) {
      this.decorations = coloured(update.state);
    }
  }
}

function coloured(state: EditorState): DecorationSet {
  if (!isOurs(state.sliceDoc(0, 200))) {
    return Decoration.none; // other cells cost nothing
  }
  return Decoration.set(
    ranges(state.sliceDoc()).map(one =>
      Decoration.mark({ class: `jp-theseus-cell-${one.kind}` }).range(one.from, one.to)
    )
  );
}

// Mistakes

const told = StateEffect.define<IMistake[]>();

const mistakes = StateField.define<IMistake[]>({
  create: () => [],
  update(value, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(told)) {
        return effect.value;
      }
    }
    if (!transaction.docChanged || value.length === 0) {
      return value;
    }
    // What is typed elsewhere moves a mistake; what is typed in it ends it.
    return value.flatMap(one => moved(one, transaction.changes));
  },
  provide: field =>
    EditorView.decorations.from(field, found =>
      Decoration.set(
        found
          .filter(one => one.to > one.from)
          .map(one => Decoration.mark({ class: 'jp-theseus-cell-mistake' }).range(one.from, one.to)),
        true
      )
    )
});

function moved(
  one: IMistake,
  changes: { touchesRange(from: number, to: number): unknown; mapPos(at: number, side?: number): number }
): IMistake[] {
  if (changes.touchesRange(one.from, one.to)) {
    return [];
  }
  const at = (place: number): number => changes.mapPos(place);
  const fix = one.fix && { ...one.fix, from: at(one.fix.from), to: at(one.fix.to) };
  return [{ ...one, from: at(one.from), to: at(one.to), fix }];
}

class Checks {
  private timer = 0;
  private gone = false;

  constructor(private readonly view: EditorView) {
    this.later(0);
  }

  update(update: ViewUpdate): void {
    if (update.docChanged) {
      this.later(PAUSE);
    }
  }

  destroy(): void {
    this.gone = true;
    window.clearTimeout(this.timer);
  }

  private later(pause: number): void {
    window.clearTimeout(this.timer);
    if (isOurs(this.view.state.sliceDoc(0, 200)) || this.view.state.field(mistakes).length > 0) {
      this.timer = window.setTimeout(() => void this.look(), pause);
    }
  }

  private async look(): Promise<void> {
    const { doc } = this.view.state;
    const text = this.view.state.sliceDoc();
    const found = isOurs(text) ? await check(text) : [];
    if (found !== null && !this.gone && this.view.state.doc.eq(doc)) {
      this.view.dispatch({ effects: told.of(found) });
    }
  }
}

/** Mend the mistake at the cursor, or else the next one below it. */
export function mend(view: EditorView, mistake?: IMistake): boolean {
  const { head } = view.state.selection.main;
  const known = view.state.field(mistakes).filter(one => one.fix !== null);
  const fix = (mistake ?? known.find(one => one.to >= head) ?? known[0])?.fix;
  if (!fix) {
    return false;
  }
  view.dispatch({
    changes: { from: fix.from, to: fix.to, insert: fix.text },
    selection: { anchor: fix.from + fix.text.length },
    userEvent: 'input.complete'
  });
  view.focus();
  return true;
}

// What is shown on hover

async function explained(view: EditorView, at: number): Promise<Tooltip | null> {
  const text = view.state.sliceDoc();
  if (!isOurs(text)) {
    return null;
  }
  const wrong = view.state.field(mistakes).find(one => one.from <= at && at <= one.to);
  if (wrong) {
    return tooltip(wrong, shown => mistakeNode(wrong, shown));
  }
  const found = await hover(text, at);
  return found && view.state.sliceDoc() === text ? tooltip(found, () => helpNode(found)) : null;
}

function tooltip(
  place: { from: number; to: number },
  node: (view: EditorView) => HTMLElement
): Tooltip {
  return {
    pos: place.from,
    end: place.to,
    above: true,
    create: view => ({ dom: node(view) })
  };
}

function mistakeNode(one: IMistake, view: EditorView): HTMLElement {
  const root = element('div', 'jp-theseus-cell-tip jp-mod-mistake');
  root.append(element('div', 'jp-theseus-cell-message', one.message));
  if (one.fix) {
    const button = element('button', 'jp-theseus-cell-fix', `Replace with ${one.fix.text}`);
    button.setAttribute('type', 'button');
    button.title = 'Alt+Enter';
    button.addEventListener('click', () => {
      // It may have moved since it was shown.
      const now = view.state.field(mistakes).find(other => other.message === one.message);
      mend(view, now ?? one);
    });
    root.append(button);
  }
  return root;
}

function helpNode(one: IExplained): HTMLElement {
  const root = element('div', 'jp-theseus-cell-tip');
  const type = one.default === null ? one.type : `${one.type} = ${one.default}`;
  const head = element('div', 'jp-theseus-cell-head');
  head.append(element('code', '', one.key), element('span', 'jp-theseus-cell-type', type));
  root.append(head, element('div', '', one.help));
  if (one.owner) {
    root.append(element('div', 'jp-theseus-cell-type', one.owner));
  }
  return root;
}

function element(tag: string, classes: string, text = ''): HTMLElement {
  const node = document.createElement(tag);
  node.className = classes;
  node.textContent = text;
  return node;
}

/** All of it, for any editor: it does nothing where the text is not ours. */
export function cellExtension(): Extension {
  return [
    // Of two marks the one with less precedence is the outer one: Python's do not cut ours apart.
    Prec.lowest(ViewPlugin.fromClass(Colours, { decorations: made => made.decorations })),
    mistakes,
    ViewPlugin.fromClass(Checks),
    hoverTooltip(explained),
    Prec.high(keymap.of([{ key: 'Alt-Enter', run: view => mend(view) }]))
  ];
}
