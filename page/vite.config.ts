import { defineConfig } from 'vitest/config'

// The address of an API for `npm run dev` and `vite preview`. The built page asks the server that it came from.
const api = process.env.FRESHLINE_API_URL ?? 'http://127.0.0.1:8080'
const proxy = { '/api': { target: api } }

export default defineConfig({
  // Relative URLs: the page works under any path prefix.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../src/freshline/page_files',
    emptyOutDir: true,
    target: 'es2022',
    sourcemap: false,
    // The content security policy allows no data: URLs and no inline script, so nothing is inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        entryFileNames: 'page/[name]-[hash].js',
        chunkFileNames: 'page/[name]-[hash].js',
        assetFileNames: 'page/[name]-[hash][extname]',
      },
    },
  },
  server: { proxy },
  preview: { proxy },
  test: { environment: 'happy-dom', include: ['tests/**/*.test.{ts,tsx}'] },
})
