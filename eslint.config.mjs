// Typed rules look at our sources alone: the Jupyter plugin also parses JSON, on which they crash.
import jupyter from '@jupyter/eslint-plugin';
import prettier from 'eslint-config-prettier';
import tseslint from 'typescript-eslint';

const [jupyterSources, ...jupyterSchemas] = jupyter.configs.recommended;

export default tseslint.config(
  { ignores: ['build/**', 'node_modules/**', '.venv/**', 'tests/**'] },
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
      // page is fetched when it is first shown (panel.tsx, index.ts).
      'jupyter/prefer-lazy-imports': 'off',
      curly: ['error', 'all'],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'prefer-arrow-callback': 'error'
    }
  },
  {
    // Tests are nobody's screen.
    files: ['labextension/src/**/*.spec.ts', 'labextension/src/testing/**'],
    rules: { 'jupyter/no-untranslated-string': 'off' }
  }
);
