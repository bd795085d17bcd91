const path = require('node:path');

module.exports = {
  // Names in place of numbers that depend on the folder: the same source gives the same bytes anywhere.
  optimization: { moduleIds: 'named', chunkIds: 'named' },
  // What the notebook's widgets draw with; it is written once.
  resolve: { alias: { 'theseus-static': path.resolve(__dirname, '../theseus/notebook/static') } }
};
