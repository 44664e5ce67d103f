import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'jsdom',
    // Each file would evaluate Lab's packages anew, which took nine tenths of the time.
    isolate: false,
    setupFiles: ['vitest.setup.ts'],
    include: ['labextension/src/**/*.spec.{ts,tsx}'],
    // Lab's packages import without file extensions, which Node alone refuses.
    server: { deps: { inline: [/@jupyterlab/, /@jupyter\//, /@microsoft/] } }
  }
});
