import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/config.ts'
import { options } from '../../../src/config/options.ts'
import { placementNames, placementOptions, placementTable, recoveryEnvironment, unusedSettings } from '../../../src/placements/registry.ts'

const configOf = (flags: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}) =>
  loadConfig({ flags: new Map(Object.entries(flags)), env: { HOME: '/nowhere', ...env } })

describe('placement registry', () => {
  it('names every placement', () => {
    expect(placementNames).toEqual(['process', 'tmux', 'docker', 'ecs', 'remote'])
  })

  it('gives every option of a placement to the configuration', () => {
    expect(Object.keys(options)).toEqual(expect.arrayContaining(Object.keys(placementOptions)))
    expect(Object.keys(placementOptions)).toEqual(expect.arrayContaining(['dockerImage', 'ecsCluster', 'remoteUrl']))
  })

  it.each([
    ['docker', { dockerUser: 'me' }, 'docker.image', 'docker.user is set, but the placement docker needs docker.image'],
    [
      'ecs',
      { ecsSubnets: 'a', ecsBucket: 'b' },
      'ecs.cluster',
      'ecs.subnets and ecs.bucket are set, but the placement ecs needs ecs.cluster',
    ],
    ['remote', { remoteToken: 'a-long-token' }, 'remote.url', 'remote.token is set, but the placement remote needs remote.url'],
  ])('reports settings of %s that have no effect', (placement, flags, setting, says) => {
    expect(unusedSettings(configOf(flags))).toEqual([{ setting, says: expect.stringContaining(says) }])
    expect(placementTable.get(placement)?.needs?.setting).toBe(setting)
  })

  it('reports nothing without settings of a placement, or with the one that it requires', () => {
    expect(unusedSettings(configOf({}))).toEqual([])
    expect(
      unusedSettings(configOf({ dockerImage: 'a', dockerUser: 'me', remoteUrl: 'http://127.0.0.1:1', remoteToken: 'a-long-token' })),
    ).toEqual([])
  })

  it('gives a recovery what it needs to find the resources of every placement, and no other variable', () => {
    const flags = {
      dockerImage: 'a',
      remoteUrl: 'http://127.0.0.1:1',
      remoteToken: 'a-long-token',
      ecsCluster: 'c',
      ecsUploadDeadline: '5s',
    }
    const env = { DOCKER_HOST: 'unix:///x', AWS_PROFILE: 'p', SECRET: 's' }
    const config = configOf(flags, env)
    expect(recoveryEnvironment(config, config.environment)).toMatchObject({
      DOCKER_HOST: 'unix:///x',
      EBB_DOCKER_IMAGE: 'a',
      EBB_REMOTE_URL: 'http://127.0.0.1:1',
      EBB_REMOTE_TOKEN: 'a-long-token',
      AWS_PROFILE: 'p',
      EBB_ECS_CLUSTER: 'c',
      EBB_ECS_UPLOAD_DEADLINE: '5000ms',
    })
    expect(recoveryEnvironment(config, config.environment)).not.toHaveProperty('SECRET')
    expect(recoveryEnvironment(configOf({}, { AWS_PROFILE: 'p' }), { AWS_PROFILE: 'p' })).toEqual({})
  })
})
