import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Config, loadConfig } from '../../../src/config/config.ts'
import { flagOf, options, variableOf } from '../../../src/config/options.ts'
import { temporaryHome } from '../../support/home.ts'

interface Given {
  readonly flags?: Record<string, string>
  readonly env?: Record<string, string>
  /** The contents of the configuration file of the home. */
  readonly file?: unknown
  /** The contents of another configuration file, which is named explicitly. */
  readonly named?: unknown
}

function load({ flags = {}, env = {}, file, named }: Given): Config {
  const home = temporaryHome()
  if (file !== undefined) writeFileSync(join(home, 'ebb.config.json'), typeof file === 'string' ? file : JSON.stringify(file))
  const configFile = join(home, 'named.json')
  if (named !== undefined) writeFileSync(configFile, JSON.stringify(named))
  return loadConfig({
    flags: new Map(Object.entries(flags)),
    env: { ...(named === undefined && { EBB_HOME: home }), HOME: '/nonexistent', ...env },
    ...(named !== undefined && { configFile }),
  })
}

const refusal = (text: string): unknown => expect.objectContaining({ code: 'bad_usage', message: expect.stringContaining(text) })

describe('config: where a setting comes from', () => {
  it('a flag overrides a variable, which overrides the file, which overrides the default', () => {
    const file = { grace: '1s' }
    const env = { EBB_GRACE: '2s' }
    const flags = { grace: '3s' }
    expect(load({}).grace).toBe(5_000)
    expect(load({ file }).grace).toBe(1_000)
    expect(load({ file, env }).grace).toBe(2_000)
    expect(load({ file, env, flags }).grace).toBe(3_000)
  })

  it('an empty variable counts as unset', () => {
    expect(load({ file: { grace: '1s' }, env: { EBB_GRACE: '' } }).grace).toBe(1_000)
  })

  it('numbers in a file need no quotes', () => {
    expect(load({ file: { limitPids: 20, limitMemory: '2g' } })).toMatchObject({ limitPids: 20, limitMemory: 2 * 1_024 ** 3 })
  })

  it("a group in a file is the first part of its settings' names", () => {
    for (const file of [{ exit: { giveUp: 'afterDeadline' } }, { 'exit.giveUp': 'afterDeadline' }, { exitGiveUp: 'afterDeadline' }])
      expect(load({ file }).exitGiveUp).toBe('afterDeadline')
    expect(() => load({ file: { exit: { never: true } } })).toThrow('"exit.never" in')
  })

  it('remote placements have groups of their own', () => {
    const docker = { image: 'node:24', mount: ['/a:/a', '/b:/c:ro'], env: ['KEY', 'A=b'], cpus: 1.5, memory: '2g' }
    const ecs = { cluster: 'agents', subnets: ['subnet-1', 'subnet-2'], port: 4401, uploadDeadline: '6h' }
    const remote = { url: 'https://gateway.example/runners/7/', token: 'a-long-token' }
    expect(load({ file: { docker, ecs, remote } })).toMatchObject({
      ...{ dockerImage: 'node:24', dockerMount: docker.mount, dockerEnv: docker.env, dockerCpus: 1.5, dockerMemory: 2 * 1_024 ** 3 },
      ...{ ecsCluster: 'agents', ecsSubnets: ecs.subnets, ecsPort: 4_401, ecsUploadDeadline: 21_600_000 },
      ...{ remoteUrl: 'https://gateway.example/runners/7', remoteToken: 'a-long-token' },
    })
  })

  it('a list in a file may be empty and contain commas; in a variable, commas need a backslash', () => {
    expect(load({ file: { allowHost: [], docker: {} } })).toMatchObject({ allowHost: [], dockerEnv: [] })
    const dockerEnv = ['NO_PROXY=localhost,127.0.0.1', 'A=1']
    expect(load({ file: { docker: { env: dockerEnv } } })).toMatchObject({ dockerEnv })
    expect(load({ env: { EBB_DOCKER_ENV: String.raw`NO_PROXY=localhost\,127.0.0.1,A=1` } })).toMatchObject({ dockerEnv })
  })

  it('rules for an agent type are an object in a file, and a list in flags and variables', () => {
    const wanted = new Map<string, unknown>([
      ['reviewer', { maxAgeDays: 7 }],
      ['Builder_2', { maxBytes: 1_024 ** 3, compressAfterDays: 0.5 }],
    ])
    const builder = { maxBytes: '1g', compressAfterDays: 0.5 }
    const text = 'reviewer=7,Builder_2.maxBytes=1g,Builder_2.compressAfterDays=0.5'
    for (const file of [
      { archive: { byAgentType: { reviewer: 7, Builder_2: builder } } },
      { 'archive.byAgentType': { reviewer: { maxAgeDays: 7 }, Builder_2: builder } },
      { 'archive.byAgentType.reviewer': 7, 'archive.byAgentType.Builder_2': builder },
      { archiveByAgentType: { reviewer: 7, Builder_2: builder } },
      { archiveByAgentType: text },
    ])
      expect(load({ file }).archiveByAgentType).toEqual(wanted)
    expect(load({ env: { EBB_ARCHIVE_BY_AGENT_TYPE: text } }).archiveByAgentType).toEqual(wanted)
    expect(load({ flags: { archiveByAgentType: text } }).archiveByAgentType).toEqual(wanted)
    expect(load({ file: { archive: { maxAgeDays: 'never', maxBytes: '2g' } } })).toMatchObject({
      archiveMaxAgeDays: Number.POSITIVE_INFINITY,
      archiveMaxBytes: 2 * 1_024 ** 3,
      archiveCompressAfterDays: 7,
    })
  })

  it('a named file replaces the one in the home', () => {
    expect(load({ named: { grace: '7s' }, env: { EBB_HOME: '/elsewhere' } })).toMatchObject({ grace: 7_000, home: '/elsewhere' })
  })

  it('every setting has a flag, a variable and a key', () => {
    expect([flagOf('limitMemory'), variableOf('limitMemory')]).toEqual(['--limit-memory', 'EBB_LIMIT_MEMORY'])
    const values = { home: '/h', containment: 'scan', grace: '1s', timeout: '2s', report: '-', limitMemory: '1k', limitPids: '3' }
    for (const [key, value] of Object.entries(values)) {
      const byFlag = load({ flags: { [key]: value } })
      expect(load({ env: { [variableOf(key)]: value } })[key as keyof Config]).toEqual(byFlag[key as keyof Config])
      if (key !== 'home') expect(load({ file: { [key]: value } })[key as keyof Config]).toEqual(byFlag[key as keyof Config])
    }
  })

  it('is frozen', () => {
    expect(Object.isFrozen(load({}))).toBe(true)
  })
})

describe('config: the home', () => {
  it('comes from flag, variable, named file, XDG_STATE_HOME and HOME, in this order', () => {
    const env = { EBB_HOME: '/by-variable', XDG_STATE_HOME: '/xdg', HOME: '/home/me' }
    expect(load({ flags: { home: '/by-flag' }, env }).home).toBe('/by-flag')
    expect(load({ env }).home).toBe('/by-variable')
    expect(load({ env: { ...env, EBB_HOME: '' }, named: { home: '/by-file' } }).home).toBe('/by-file')
    expect(load({ env: { ...env, EBB_HOME: '' } }).home).toBe('/xdg/ebb')
    expect(load({ env: { HOME: '/home/me', EBB_HOME: '' } }).home).toBe('/home/me/.local/state/ebb')
    expect(load({ env: { HOME: '/home/me', EBB_HOME: '', XDG_STATE_HOME: 'relative' } }).home).toBe('/home/me/.local/state/ebb')
  })

  it('a relative path is made absolute', () => {
    expect(load({ flags: { home: 'here' } }).home).toBe(join(process.cwd(), 'here'))
  })

  it('an empty flag is refused, because it would mean the current folder', () => {
    expect(() => load({ flags: { home: '' } })).toThrow(refusal('--home must name a folder'))
  })

  it('without HOME and any setting, the error asks for one', () => {
    expect(() => load({ env: { EBB_HOME: '', HOME: '' } })).toThrow(expect.objectContaining({ code: 'home_unusable' }))
  })

  it('the file in the home cannot set the home', () => {
    expect(() => load({ file: { home: '/elsewhere' } })).toThrow(refusal('"home" in'))
  })
})

describe('config: refused by name', () => {
  it.each([
    ['an unknown key', { file: { grase: '1s' } }, '"grase" in'],
    ['an unknown key with nothing in it', { file: { grase: {} } }, '"grase" in'],
    ['an entry of a list that is no text', { file: { allowHost: ['a', { b: 1 }] } }, '"allowHost" in'],
    ['an unknown flag', { flags: { grase: '1s' } }, '--grase'],
    ['a bad value in a file', { file: { grace: 5 } }, '"grace" in'],
    ['a bad value in a variable', { env: { EBB_GRACE: 'soon' } }, 'EBB_GRACE must be a duration'],
    ['a bad value of a flag', { flags: { grace: 'soon' } }, '--grace must be a duration'],
    [
      'a containment that does not exist',
      { flags: { containment: 'magic' } },
      '--containment must be one of auto, cgroup, subreaper, scan',
    ],
    ['a size without a number', { flags: { limitMemory: 'lots' } }, '--limit-memory must be a size'],
    ['zero processes', { env: { EBB_LIMIT_PIDS: '0' } }, 'EBB_LIMIT_PIDS must be a whole number'],
    ['an object in place of a value', { file: { report: { to: 'x' } } }, '"report" in'],
    ['a null', { file: { report: null } }, '"report" in'],
    ['a file that is no JSON', { file: '{ grace: 1 }' }, 'ebb.config.json cannot be read'],
    ['a file that is no object', { file: ['grace'] }, 'must be a JSON object'],
    ['an invalid rule for a type', { file: { archive: { byAgentType: { a: { maxAge: 1 } } } } }, 'a.maxAge, is not a known key'],
    ['a rule for an invalid type', { file: { archive: { byAgentType: { 'a b': 1 } } } }, '"archive.byAgentType" in'],
    ['a rule that goes too deep', { file: { archive: { byAgentType: { a: { maxBytes: { b: 1 } } } } } }, 'not "a.maxBytes.b=1"'],
    [
      'an invalid number of days',
      { flags: { archiveByAgentType: 'a=soon' } },
      '--archive-by-agent-type, a.maxAgeDays, must be a number of days',
    ],
    ['a negative age', { env: { EBB_ARCHIVE_MAX_AGE_DAYS: '-1' } }, 'EBB_ARCHIVE_MAX_AGE_DAYS must be a number of days'],
    ['an archive setting that does not exist', { file: { archive: { maxAge: 1 } } }, '"archive.maxAge" in'],
    [
      'a daemon without a valid address',
      { flags: { dockerHost: '/var/run/x.sock' } },
      '--docker-host must be unix:///PATH or tcp://HOST:PORT',
    ],
    ['a mount of a relative folder', { file: { docker: { mount: ['src:/src'] } } }, '"docker.mount" in'],
    ['a mount with an invalid third part', { flags: { dockerMount: '/a:/b:rw' } }, '--docker-mount must be SOURCE:TARGET'],
    ['an invalid variable', { env: { EBB_DOCKER_ENV: 'A-B=1' } }, 'EBB_DOCKER_ENV must be NAME or NAME=VALUE'],
    ['zero processors', { flags: { dockerCpus: '0' } }, '--docker-cpus must be a number'],
    ['a prefix with ".."', { file: { ecs: { prefix: 'a/../b' } } }, '"ecs.prefix" in'],
    ['a prefix with a slash at its end', { flags: { ecsPrefix: 'a/' } }, '--ecs-prefix must be names'],
    ['a runner with a password in its URL', { flags: { remoteUrl: 'http://a:b@c' } }, '--remote-url must be a URL'],
    ['a runner that is no URL', { env: { EBB_REMOTE_URL: '10.0.0.7:4400' } }, 'EBB_REMOTE_URL must be a URL'],
    ['a token that is too short', { file: { remote: { token: 'x' } } }, '"remote.token" in'],
    ['a property name of every object', { file: { constructor: '1' } }, '"constructor" in'],
  ] as [string, Given, string][])('%s', (_what, given, text) => {
    expect(() => load(given)).toThrow(refusal(text))
  })

  it('a named file that does not exist', () => {
    expect(() => loadConfig({ flags: new Map(), env: {}, configFile: '/nonexistent/ebb.json' })).toThrow(
      refusal('/nonexistent/ebb.json cannot be read'),
    )
  })

  it('a folder in place of the file', () => {
    const home = temporaryHome()
    mkdirSync(join(home, 'ebb.config.json'))
    expect(() => loadConfig({ flags: new Map(), env: { EBB_HOME: home } })).toThrow(refusal('cannot be read'))
  })
})

describe('config: the environment tag', () => {
  it('is a mark, never a setting', () => {
    const config = load({ env: { EBB_SCOPE: 'a/b/c' } })
    expect(config.inheritedTag).toBe('a/b/c')
    expect(config).not.toHaveProperty('scope')
    expect(options).not.toHaveProperty('scope')
    expect(() => load({ flags: { scope: 'a/b/c' } })).toThrow(refusal('--scope'))
    expect(() => load({ file: { scope: 'a/b/c' } })).toThrow(refusal('"scope" in'))
  })

  it('no setting has its name', () => {
    expect(Object.keys(options).map(variableOf)).not.toContain('EBB_SCOPE')
  })
})
