// Icons of 16 × 16, drawn in the colour of the text.
import type { ReactNode } from 'react'

const shapes = {
  alert: <path d="M8 2 14.5 13.5h-13zM8 6.3v3.4M8 11.7v.1" />,
  audit: <path d="M3 2h7l3 3v9H3zM10 2v3h3M5.5 8h5M5.5 11h5" />,
  bars: <path d="M2.5 13.5v-4M6.2 13.5v-8M9.8 13.5v-6M13.5 13.5v-11" />,
  calendar: (
    <>
      <rect x="2" y="3" width="12" height="11" rx="1.5" />
      <path d="M2 6.5h12M5 1.5v3M11 1.5v3" />
    </>
  ),
  clock: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.5V8l2.4 1.6" />
    </>
  ),
  clusters: (
    <>
      <rect x="2" y="2" width="5" height="5" rx="1" />
      <rect x="9" y="2" width="5" height="5" rx="1" />
      <rect x="2" y="9" width="5" height="5" rx="1" />
      <rect x="9" y="9" width="5" height="5" rx="1" />
    </>
  ),
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.2" />
      <path d="M10.5 5.5v-3h-8v8h3" />
    </>
  ),
  cross: <path d="m4 4 8 8M12 4l-8 8" />,
  fabric: (
    <>
      <path d="M4 4.5 12 11.5M12 4.5 4 11.5M4 4.5v7M12 4.5v7" />
      <circle cx="4" cy="3.5" r="1.5" />
      <circle cx="12" cy="3.5" r="1.5" />
      <circle cx="4" cy="12.5" r="1.5" />
      <circle cx="12" cy="12.5" r="1.5" />
    </>
  ),
  rack: (
    <>
      <rect x="3" y="1.5" width="10" height="13" rx="1.2" />
      <path d="M3 5h10M3 8h10M3 11h10" />
    </>
  ),
  network: <path d="M8 6V2.5M3 10V6h10v4M8 6v4M1.5 10h3v3.5h-3zM6.5 10h3v3.5h-3zM11.5 10h3v3.5h-3z" />,
  file: <path d="M3.5 1.8h5.6l3.4 3.4v9h-9zM9 2v3.4h3.4" />,
  filter: <path d="M2 3.5h12M4.5 8h7M6.5 12.5h3" />,
  find: (
    <>
      <circle cx="7" cy="7" r="4.5" />
      <path d="m10.5 10.5 3.5 3.5" />
    </>
  ),
  folder: <path d="M1.8 13V3.2h4.4l1.6 2h6.4V13z" />,
  home: <path d="M2.5 7.2 8 2.7l5.5 4.5v6.1h-4V9.6h-3v3.7h-4z" />,
  info: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 7.2v3.9M8 4.9V5" />
    </>
  ),
  jobs: <path d="M2.5 4h.1M5.5 4h8M2.5 8h.1M5.5 8h8M2.5 12h.1M5.5 12h5" />,
  repeat: <path d="M13 8a5 5 0 0 1-9.2 2.7M3 8a5 5 0 0 1 9.2-2.7M12.6 2.5v3h-3M3.4 13.5v-3h3" />,
  key: (
    <>
      <circle cx="5" cy="11" r="2.7" />
      <path d="m7 9 6-6M10.5 5.5l2 2M12 4l1.5 1.5" />
    </>
  ),
  machine: (
    <>
      <rect x="1.8" y="4.5" width="12.4" height="7" rx="1.2" />
      <path d="M4.5 8h.1M7 8h.1M10 6.8v2.4M12 6.8v2.4" />
    </>
  ),
  members: (
    <>
      <circle cx="6" cy="5.2" r="2.4" />
      <path d="M1.8 13.3c0-2.4 1.9-4 4.2-4s4.2 1.6 4.2 4M10.6 3a2.3 2.3 0 0 1 0 4.4M12 9.7c1.4.5 2.3 1.8 2.3 3.6" />
    </>
  ),
  more: <path d="M3.5 8h.1M8 8h.1M12.5 8h.1" strokeWidth="2.2" />,
  open: <path d="M9 2.5h4.5V7M13.2 2.8 7.5 8.5M6.5 3.5h-4v10h10v-4" />,
  pause: <path d="M5.5 3v10M10.5 3v10" />,
  play: <path d="M4.5 2.8v10.4L13 8z" />,
  plus: <path d="M8 3v10M3 8h10" />,
  scale: <path d="M9.5 2.5h4v4M6.5 13.5h-4v-4M13.2 2.8 9 7M2.8 13.2 7 9" />,
  site: <path d="M1.5 8.5h3l2-5.5 3 10 2-4.5h3" />,
  snapshots: (
    <>
      <rect x="4.5" y="4.5" width="9" height="9" rx="1.5" />
      <path d="M11.5 2.5h-7a2 2 0 0 0-2 2v7" />
    </>
  ),
  switch: <path d="m5 6 3-3 3 3M5 10l3 3 3-3" />,
  terminal: (
    <>
      <rect x="1.8" y="2.8" width="12.4" height="10.4" rx="1.5" />
      <path d="m4.5 6 2 2-2 2M8.5 10.2h3" />
    </>
  ),
  tick: <path d="m3 8.5 3.3 3.3L13 5" />,
  upload: <path d="M8 10.5v-8M4.8 5.6 8 2.4l3.2 3.2M2.5 10.5v3h11v-3" />,
} satisfies Record<string, ReactNode>

export type IconName = keyof typeof shapes

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="i" viewBox="0 0 16 16" aria-hidden="true">
      {shapes[name]}
    </svg>
  )
}

/** Logo is the product's mark. */
export function Logo() {
  const places = [1.3, 7.8, 14.3]
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
      <g fill="none" stroke="currentColor" strokeWidth="1.6">
        {places.flatMap((y) =>
          places
            .filter((x) => x !== 7.8 || y !== 7.8)
            .map((x) => <rect key={`${x} ${y}`} x={x} y={y} width="4.4" height="4.4" rx="1" />),
        )}
      </g>
      <rect x="7" y="7" width="6" height="6" rx="1.4" fill="currentColor" />
    </svg>
  )
}
