import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

// The controller's policy lets a page load its own files only: nothing is inlined, and the styles that a library makes show the
// number that the controller writes in the place of {{nonce}}.
export default defineConfig({
  plugins: [react()],
  html: { cspNonce: '{{nonce}}' },
  // light-dark() stays as it is: what would be put in its place knows no scheme that was chosen.
  build: { target: ['chrome123', 'firefox120', 'safari17.5'], assetsInlineLimit: 0, modulePreload: { polyfill: false }, sourcemap: false, outDir: 'dist', license: { fileName: 'licenses.txt' } },
  worker: { format: 'es' },
  server: { proxy: { '/v1': 'http://127.0.0.1:7420' } },
})
