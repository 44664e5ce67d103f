// What the builder leaves on the table: style sheets go along as strings inside JavaScript, names of
// private members stay long, and the loader brings a parser of version ranges that can only warn.
// All of it is sent to every browser, so sheets become a chunk of their own kind, private names
// short, and the parts of the loader that this extension does not need are replaced by shorter ones.
const { writeFileSync } = require('node:fs');
const { rspack } = require('@rspack/core');

/** What this writes says which files each page brings; `npm run size` adds them up. */
const CHUNKS = 'build/chunks.json';

class ListsChunks {
  apply(compiler) {
    compiler.hooks.done.tap('ListsChunks', stats => {
      const { namedChunkGroups } = stats.toJson({
        all: false,
        chunkGroups: true
      });
      const files = Object.entries(namedChunkGroups ?? {}).map(
        ([name, { assets }]) => [name, assets.map(each => each.name)]
      );
      writeFileSync(CHUNKS, JSON.stringify(Object.fromEntries(files)));
    });
  }
}

class SheetsAsSheets {
  apply(compiler) {
    const { module } = compiler.options;
    const isSheets = rule => rule.test?.test?.('a.css') === true;
    module.rules = module.rules.filter(rule => !isSheets(rule));
    module.rules.push({ test: /\.css$/, type: 'css/global' });
  }
}

// By the builder's names of a loader's parts; each gets what the builder wrote.
const SHORTER = {
  // Lab offers each package once; of several versions, the one in use or else the newest is taken.
  consumes_loading: original => {
    const { chunkMapping, moduleIdToConsumeDataMapping } = dataOf(original);
    const keys = Object.entries(moduleIdToConsumeDataMapping).map(
      ([id, { shareKey }]) => [id, shareKey]
    );
    return `
      const keys = ${JSON.stringify(Object.fromEntries(keys))};
      const take = key => {
        const versions = __webpack_require__.S.default[key];
        if (!versions) throw Error(key + ' is not shared by this application');
        const rank = name => (versions[name].loaded ? 1 : 0);
        const best = Object.keys(versions).sort(
          (a, b) => rank(a) - rank(b) || a.localeCompare(b, 'en', { numeric: true })
        ).pop();
        versions[best].loaded = 1;
        return versions[best].get();
      };
      __webpack_require__.f.consumes = (chunkId, promises) => {
        for (const id of ${JSON.stringify(chunkMapping)}[chunkId] ?? [])
          if (!__webpack_require__.m[id])
            promises.push(
              Promise.resolve(__webpack_require__.I('default'))
                .then(() => take(keys[id]))
                .then(factory => {
                  __webpack_require__.m[id] = module => {
                    module.exports = factory();
                  };
                })
            );
      };`;
  },
  css_loading: original => {
    const chunks = [...original.matchAll(/"(\w+)" == chunkId/g)].map(
      ([, id]) => id
    );
    return `
      const sheets = {};
      __webpack_require__.f.css = (chunkId, promises) => {
        if (${JSON.stringify(chunks)}.includes(chunkId + ''))
          promises.push((sheets[chunkId] ??= new Promise((onload, failed) => {
            const href = __webpack_require__.p + __webpack_require__.k(chunkId);
            const onerror = () => failed(Error('Loading ' + href + ' failed'));
            const link = document.createElement('link');
            document.head.append(Object.assign(link, { rel: 'stylesheet', href, onload, onerror }));
          })));
      };`;
  },
  auto_public_path: () => `
    __webpack_require__.p = document.currentScript.src.replace(/[^/]*$/, '');`,
  global: () => `
    __webpack_require__.g = globalThis;`
};

/** What the builder assigned first: the shared packages and the chunks that need them. */
function dataOf(source) {
  const loader = {};
  new Function(
    '__webpack_require__',
    source.match(/^.*consumesLoadingData = .*$/m)[0]
  )(loader);
  return loader.consumesLoadingData;
}

class ShorterLoader {
  apply(compiler) {
    compiler.hooks.thisCompilation.tap('ShorterLoader', compilation => {
      compilation.hooks.runtimeModule.tap('ShorterLoader', part => {
        const shorter = SHORTER[part.name];
        if (shorter)
          part.source.source = Buffer.from(
            shorter(part.source.source.toString())
          );
      });
    });
  }
}

module.exports = {
  // One short hash in a chunk's name instead of two long ones, and a short name of where it lands.
  output: {
    chunkLoadingGlobal: 'gpucommons',
    chunkFilename: '[name].[contenthash:8].js',
    cssChunkFilename: '[name].[contenthash:8].css'
  },
  plugins: [new SheetsAsSheets(), new ShorterLoader(), new ListsChunks()],
  optimization: {
    // Nobody reads these names: the shortest will do.
    mangleExports: 'size',
    moduleIds: 'natural',
    // What panel and job page share comes once, in a chunk of its own.
    splitChunks: { chunks: 'async', minSize: 2000 },
    minimizer: [
      new rspack.SwcJsMinimizerRspackPlugin({
        minimizerOptions: {
          ecma: 2022,
          compress: {
            passes: 4,
            arrows: true,
            unsafe_arrows: true,
            unsafe_methods: true,
            pure_getters: true,
            keep_fargs: false,
            toplevel: true,
            ecma: 2022
          },
          // Private members only: never trans.__ and trans._n.
          mangle: { props: { regex: '^_[a-zA-Z]{2,}', undeclared: true } }
        }
      }),
      new rspack.LightningCssMinimizerRspackPlugin()
    ]
  }
};
