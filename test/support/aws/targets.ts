import type { Asked, Reply } from './operation.ts'

/** Targets of a load balancer: `initial` before `healthy`, and `draining` before they are gone. */

type State = 'initial' | 'healthy' | 'unhealthy' | 'draining'

export interface FakeTarget {
  readonly group: string
  readonly address: string
  readonly port: number
  state: State
}

export class Targets {
  readonly all = new Map<string, FakeTarget>()
  initialMs = 20
  drainMs = 50
  /** New targets become `unhealthy` instead of `healthy`. */
  areUnhealthy = false

  stand({ name, body }: Asked): Promise<Reply> | undefined {
    const form = new URLSearchParams(body.toString('utf8'))
    const group = form.get('TargetGroupArn') ?? ''
    const asked = targetsIn(form)
    if (name === 'RegisterTargets') for (const target of asked) this.register(group, target.address, target.port)
    else if (name === 'DeregisterTargets') for (const target of asked) this.#deregister(group, target.address, target.port)
    else if (name === 'DescribeTargetHealth') return Promise.resolve(this.#describe(group, asked))
    else return undefined
    return Promise.resolve(xml(name, ''))
  }

  register(group: string, address: string, port: number): void {
    const target: FakeTarget = { group, address, port, state: 'initial' }
    this.all.set(keyOf(group, address, port), target)
    setTimeout(() => {
      if (target.state === 'initial') target.state = this.areUnhealthy ? 'unhealthy' : 'healthy'
    }, this.initialMs)
  }

  /** Deregistering an unknown target succeeds, as the API reference says. */
  #deregister(group: string, address: string, port: number): void {
    const key = keyOf(group, address, port)
    const target = this.all.get(key)
    if (!target || target.state === 'draining') return
    target.state = 'draining'
    setTimeout(() => {
      if (this.all.get(key) === target && target.state === 'draining') this.all.delete(key)
    }, this.drainMs)
  }

  #describe(group: string, asked: readonly { readonly address: string; readonly port: number }[]): Reply {
    const known = [...this.all.values()].filter((target) => target.group === group)
    const shown =
      asked.length === 0
        ? known.map(({ address, port, state }) => member(address, port, state))
        : asked.map(({ address, port }) => {
            const target = this.all.get(keyOf(group, address, port))
            return target ? member(address, port, target.state) : member(address, port, 'unused', 'Target.NotRegistered')
          })
    return xml('DescribeTargetHealth', `<TargetHealthDescriptions>${shown.join('')}</TargetHealthDescriptions>`)
  }
}

function keyOf(group: string, address: string, port: number): string {
  return `${group} ${address} ${port}`
}

function targetsIn(form: URLSearchParams): readonly { readonly address: string; readonly port: number }[] {
  const found: { address: string; port: number }[] = []
  for (let n = 1; form.has(`Targets.member.${n}.Id`); n++)
    found.push({ address: form.get(`Targets.member.${n}.Id`) ?? '', port: Number(form.get(`Targets.member.${n}.Port`)) })
  return found
}

function member(address: string, port: number, state: string, reason?: string): string {
  const why = reason === undefined ? '' : `<Reason>${reason}</Reason><Description>not registered</Description>`
  return `<member><Target><Id>${address}</Id><Port>${port}</Port></Target><TargetHealth><State>${state}</State>${why}</TargetHealth></member>`
}

function xml(operation: string, result: string): Reply {
  const text = `<${operation}Response xmlns="http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/"><${operation}Result>${result}</${operation}Result><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></${operation}Response>`
  return { status: 200, headers: { 'content-type': 'text/xml' }, body: text }
}
