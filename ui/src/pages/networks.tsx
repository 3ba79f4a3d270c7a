// The networks that machines boot from.
import { useQuery } from '@tanstack/react-query'

import { networksQuery } from '../data'
import { Icon } from '../parts/icon'
import { Command, Loaded, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { useTitle } from '../parts/title'

/** servers say who gives addresses on a network. */
const servers: Record<string, string> = { own: 'Muster', proxy: 'the site', off: 'the site, with boot files' }

export function Networks() {
  useTitle('Networks')
  return (
    <>
      <div className="head">
        <h1>Networks</h1>
      </div>
      <Panel
        title="Boot networks"
        more={<Command text="muster networks add NAME --interface INTERFACE --address ADDRESS/BITS" />}
      >
        <Loaded query={useQuery(networksQuery)}>
          {(all) => (
            <>
              <Table
                label="Networks"
                rows={all}
                of={(n) => n.name ?? ''}
                columns={[
                  ['Name', (n) => n.name],
                  ['Interface', (n) => n.interface, 'mono'],
                  ['Address', (n) => n.address, 'mono'],
                  ['Addresses come from', (n) => servers[n.mode] ?? n.mode],
                  ['Range', (n) => n.first && `${n.first} to ${n.last}`, 'mono'],
                  ['Gateway', (n) => n.gateway, 'mono'],
                  ['Unknown machines', (n) => (n.unknown === 'enrol' ? 'boot, and are listed' : 'get no answer')],
                  ['Clusters are kept apart by', (n) => (!n.switch || n.switch === 'none' ? 'nothing' : n.switch)],
                ]}
              />
              {all
                .filter((n) => n.warning)
                .map((n) => (
                  <p className="in line t-warn" key={n.name}>
                    <Icon name="alert" /> {n.name}: {n.warning}
                  </p>
                ))}
            </>
          )}
        </Loaded>
      </Panel>
    </>
  )
}
