/** What a recipe is called, what is in it, and what can be done with one. */

export const recipe = {
  new: 'theseus:new-run-from-recipe',
  form: 'theseus:edit-recipe-as-form',
  submit: 'theseus:submit-recipe'
};

/** Whether a file may hold a recipe, by its name. */
export function isYaml(path: string): boolean {
  return /\.ya?ml$/i.test(path);
}

/** Whether a text is a recipe: it names a job and has a config, each at the begin of a line. */
export function isRecipe(text: string): boolean {
  return /^job:/m.test(text) && /^config:/m.test(text);
}

/** Return the cell with `--submit` on its first line: it is sent when the user runs it, not before. */
export function submitted(cell: string): string {
  const [first = '', ...rest] = cell.split('\n');
  return [/\s--submit\b/.test(first) ? first : `${first} --submit`, ...rest].join('\n');
}
