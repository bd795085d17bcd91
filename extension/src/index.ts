/** Theseus in JupyterLab. */

import { plugins as cells } from './cells';

export default [...cells];
