/** Theseus in JupyterLab. */

import { plugins as cells } from './cells';
import model from './model';
import panel from './panel';
import recipes from './recipes';
import recipeEditor from './recipes/editor';
import commands from './run/commands';
import renderer from './run/renderer';

export default [...cells, model, panel, commands, renderer, recipes, recipeEditor];
