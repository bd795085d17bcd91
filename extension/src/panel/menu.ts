/** A menu under a button, by mouse and by keyboard. */

import { Menu } from '@lumino/widgets';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject } from '@lumino/coreutils';

/** Open a menu of commands below an element; those that are not enabled are left out. */
export function openMenu(
  commands: CommandRegistry,
  names: string[],
  args: ReadonlyJSONObject,
  below: HTMLElement
): void {
  const menu = new Menu({ commands });
  for (const command of names) {
    if (commands.hasCommand(command) && commands.isVisible(command, args)) {
      menu.addItem({ command, args });
    }
  }
  menu.aboutToClose.connect(() => {
    below.setAttribute('aria-expanded', 'false');
    below.focus();
  });
  below.setAttribute('aria-expanded', 'true');
  const at = below.getBoundingClientRect();
  menu.open(at.left, at.bottom);
}
