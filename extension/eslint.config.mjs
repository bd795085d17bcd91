import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['lib/', 'node_modules/'] },
  ...tseslint.configs.recommendedTypeChecked.map(config => ({ ...config, files: ['src/**/*.ts'] })),
  {
    files: ['src/**/*.ts'],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      eqeqeq: 'error',
      // Signals of Lumino are given the object beside the method.
      '@typescript-eslint/unbound-method': 'off',
      // A token and its type have one name, as in JupyterLab itself.
      '@typescript-eslint/no-redeclare': 'off'
    }
  }
);
