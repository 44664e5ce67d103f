// What the builder leaves on the table: style sheets go along as strings inside JavaScript, and
// names of private members stay long. Both are sent to every browser, so sheets become a chunk of
// their own kind and private names short.
const { rspack } = require('@rspack/core');

class SheetsAsSheets {
  apply(compiler) {
    const { module } = compiler.options;
    const isSheets = rule => rule.test?.test?.('a.css') === true;
    module.rules = module.rules.filter(rule => !isSheets(rule));
    module.rules.push({ test: /\.css$/, type: 'css/global' });
  }
}

module.exports = {
  // One short hash in a chunk's name instead of two long ones.
  output: {
    chunkFilename: '[name].[contenthash:8].js',
    cssChunkFilename: '[name].[contenthash:8].css'
  },
  plugins: [new SheetsAsSheets()],
  optimization: {
    minimizer: [
      new rspack.SwcJsMinimizerRspackPlugin({
        minimizerOptions: {
          ecma: 2020,
          compress: {
            passes: 4,
            arrows: true,
            unsafe_arrows: true,
            unsafe_methods: true,
            pure_getters: true,
            keep_fargs: false,
            toplevel: true,
            ecma: 2020
          },
          // Private members only: never trans.__ and trans._n.
          mangle: { props: { regex: '^_[a-zA-Z]{2,}', undeclared: true } }
        }
      }),
      new rspack.LightningCssMinimizerRspackPlugin()
    ]
  }
};
