/** What the widgets of the notebook and this extension share: `theseus/notebook/static/`, plain modules. */

declare module 'theseus-static/dom.js' {
  type Child = Node | string | number | null | undefined | false;
  export function h(tag: string, attributes?: Record<string, unknown>, ...children: Child[]): HTMLElement;
  export function keepKeys(root: HTMLElement): void;
}

declare module 'theseus-static/card.js' {
  export interface IAnswer {
    busy: boolean;
    ok: boolean;
    text: string;
  }

  export interface ICard {
    run: Record<string, unknown> | null;
    answers: Record<string, IAnswer>;
    others: { id: string; name: string; state: string }[];
    compared: string[];
  }

  export class CardStore {
    constructor(send: (message: Record<string, unknown>) => void);
    card: ICard;
    silent: boolean;
    update(card: ICard): void;
    message(message: Record<string, unknown>): void;
    tell(): void;
  }

  export function cardView(
    store: CardStore,
    options?: { shown?: 'curves' | 'log' | 'both' }
  ): { element: HTMLElement; stop: () => void };
}
