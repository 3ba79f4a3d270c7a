import type { ReactNode } from 'react'

type Column<T> = readonly [title: string, cell: (row: T) => ReactNode, kind?: 'right' | 'wrap' | 'mono']

/** Table is rows under headings; of names a row. What is wider than the screen scrolls. */
export function Table<T>(props: {
  label: string
  rows: T[]
  of: (row: T) => string
  columns: readonly Column<T>[]
  none?: string
}) {
  if (props.rows.length === 0) return <div className="in faint">{props.none ?? 'None.'}</div>
  return (
    <div className="wide" tabIndex={0} role="region" aria-label={`Table: ${props.label}`}>
      <table className="grid">
        <thead>
          <tr>
            {props.columns.map(([title, , kind], i) => (
              <th key={i} className={kind === 'right' ? 'right' : undefined}>
                {title || <span className="sr">more</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.of(row)}>
              {props.columns.map(([, cell, kind], i) => (
                <td key={i} className={kind}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
