/** Completion in `%%theseus` cells, asked of the server: it answers while the kernel is busy. */

import type {
  CompletionHandler,
  ICompletionContext,
  ICompletionProvider
} from '@jupyterlab/completer';

import { complete, type IItem } from './ask';
import { isOurs } from './colour';

export class CellProvider implements ICompletionProvider {
  readonly identifier = 'theseus:cells';
  readonly rank = 1000; // the kernel's is 550; what both say is then shown once, as we say it
  readonly renderer = null;

  isApplicable(context: ICompletionContext): Promise<boolean> {
    return Promise.resolve(isOurs(context.editor?.model.sharedModel.getSource() ?? ''));
  }

  async fetch(
    request: CompletionHandler.IRequest,
    context: ICompletionContext
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const text = context.editor?.model.sharedModel.getSource() ?? request.text;
    const found = isOurs(text) ? await complete(text, request.offset) : null;
    return {
      start: found?.from ?? request.offset,
      end: found?.to ?? request.offset,
      items: (found?.items ?? []).map(shown)
    };
  }
}

const WIDEST = 32; // letters beside a key; all of it is in the documentation

/** Return a text that the list cannot break: its rows are as high as one line. */
function inOneLine(text: string): string {
  const short = text.length > WIDEST ? `${text.slice(0, WIDEST - 1)}…` : text;
  return short.replace(/\| /g, '|\u2060 ').replace(/ /g, '\u00a0'); // behind `|` a line may end
}

/** Return an item as the list of JupyterLab takes it. */
export function shown(item: IItem): CompletionHandler.ICompletionItem {
  const detail = item.default === null ? item.type : `${item.type} = ${item.default}`;
  const help = [item.help, detail].filter(Boolean).join('\n');
  return {
    label: item.text.replace(/[:}=\s]+$/, '') || item.text,
    insertText: item.text,
    type: inOneLine(detail || item.kind),
    ...(item.kind === 'key' && help ? { documentation: help } : {})
  };
}
