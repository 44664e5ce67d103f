// Typed rules look at our sources alone: the Jupyter plugin also parses JSON, on which they crash.
import js from '@eslint/js';
import jupyter from '@jupyter/eslint-plugin';
import prettier from 'eslint-config-prettier';
import tseslint from 'typescript-eslint';

const [jupyterSources, ...jupyterSchemas] = jupyter.configs.recommended;

/** What our scripts use of a browser; anything else is a slip of the pen. */
const BROWSER = [
  ...['window', 'document', 'location', 'fetch', 'performance', 'URL'],
  ...['WebSocket', 'DOMParser', 'AbortController'],
  ...['setTimeout', 'clearTimeout', 'setInterval']
];

export default tseslint.config(
  {
    ignores: [
      'build/**',
      'node_modules/**',
      '.venv/**',
      'tests/**',
      'scheduler/pages/static/uplot/**'
    ]
  },
  { plugins: { jupyter } },
  ...jupyterSchemas,
  {
    files: ['labextension/src/**/*.{ts,tsx}'],
    extends: [
      ...tseslint.configs.strictTypeChecked,
      { ...jupyterSources, files: undefined },
      prettier
    ],
    languageOptions: {
      parserOptions: {
        project: './tsconfig.eslint.json',
        tsconfigRootDir: import.meta.dirname
      }
    },
    rules: {
      '@typescript-eslint/naming-convention': [
        'error',
        {
          selector: 'interface',
          format: ['PascalCase'],
          custom: { regex: '^I[A-Z]', match: true }
        }
      ],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true }
      ],
      // Lumino's signals take the receiver as an argument of its own: connect(this._slot, this).
      '@typescript-eslint/unbound-method': 'off',
      // Status, notifications and commands serve from the start; what draws the panel and the job
      // page is fetched when it is first shown (panel/widget.tsx, jobpage/jobwidget.tsx).
      'jupyter/prefer-lazy-imports': 'off',
      curly: ['error', 'all'],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'prefer-arrow-callback': 'error'
    }
  },
  {
    // Scripts that browsers load as they are.
    files: ['labextension/widgets/*.js', 'scheduler/pages/static/*.js'],
    ...js.configs.recommended,
    languageOptions: {
      globals: Object.fromEntries(BROWSER.map(name => [name, 'readonly']))
    },
    rules: {
      ...js.configs.recommended.rules,
      curly: ['error', 'all'],
      eqeqeq: ['error', 'always', { null: 'ignore' }]
    }
  },
  {
    // Tests are nobody's screen.
    files: ['labextension/src/**/*.spec.ts', 'labextension/src/testing/**'],
    rules: { 'jupyter/no-untranslated-string': 'off' }
  }
);
