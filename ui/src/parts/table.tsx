import type { ReactNode } from 'react'

import { Panel } from './panel'

type Column<T> = readonly [title: string, cell: (row: T) => ReactNode, kind?: 'right' | 'wrap' | 'mono']

type Props<T> = { label: string; rows: T[]; of: (row: T) => string; columns: readonly Column<T>[]; none?: string }

/** Table is rows under headings; of names a row. What is wider than the screen scrolls. */
export function Table<T>(props: Props<T>) {
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

/** Listed is a panel with a table, where there is something to list. */
export function Listed<T>({ rows, beside, ...props }: Omit<Props<T>, 'rows'> & { rows: T[] | undefined; beside?: ReactNode }) {
  if (!rows?.length) return null
  return (
    <Panel title={props.label} beside={beside}>
      <Table rows={rows} {...props} />
    </Panel>
  )
}
