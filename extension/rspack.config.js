// Names in place of numbers that depend on the folder: the same source gives the same bytes anywhere.
module.exports = { optimization: { moduleIds: 'named', chunkIds: 'named' } };
