import './nonce'
import '@fontsource-variable/geist/wght.css'
import '@fontsource-variable/geist-mono/wght.css'
import './console.css'
import './pages.css'

import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'

import { NoAnswer } from './api'
import { follow } from './live'
import { router } from './router'

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: Infinity, // news say what has changed
      refetchOnWindowFocus: false,
      networkMode: 'always', // the controller may be on this host
      retry: (failures, why) => why instanceof NoAnswer && failures < 3,
    },
  },
})

const place = document.getElementById('root')
if (place)
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
try {
  follow(queries)
} catch (why) {
  console.error('no news will come', why)
}
