import { expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/config.ts'
import { sentinelEnvironment } from '../../../src/config/sentinel-environment.ts'

const environmentOf = (flags: Readonly<Record<string, string>>, env: NodeJS.ProcessEnv): Record<string, string> =>
  sentinelEnvironment(loadConfig({ flags: new Map([['home', '/nowhere'], ...Object.entries(flags)]), env }))

it("sentinel environment: contains the supervisor's extra CA certificates, for a runner with a private certificate", () => {
  const flags = { remoteUrl: 'https://runner.example', remoteToken: 'the-token' }
  expect(environmentOf(flags, { NODE_EXTRA_CA_CERTS: '/etc/own.pem' })).toMatchObject({
    NODE_EXTRA_CA_CERTS: '/etc/own.pem',
    EBB_REMOTE_URL: 'https://runner.example',
    EBB_REMOTE_TOKEN: 'the-token',
  })
})

it("sentinel environment: contains none of the user's variables, and AWS credentials only for ECS agents", () => {
  const env = { PATH: '/bin', SECRET: 'x', AWS_PROFILE: 'mine', ANTHROPIC_API_KEY: 'y' }
  expect(Object.keys(environmentOf({}, env)).toSorted()).toEqual(['EBB_LIMIT_LOG', 'EBB_LIMIT_MESSAGES', 'EBB_STORE', 'PATH'])
  expect(environmentOf({ ecsCluster: 'agents' }, env)).toMatchObject({ AWS_PROFILE: 'mine', EBB_ECS_CLUSTER: 'agents' })
})
