import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  chainTag,
  containerTag,
  environmentTag,
  incarnationId,
  isSafeId,
  parseEnvironmentTags,
  parseIncarnationId,
  resourceId,
  scopeOfResource,
  shortBootId,
} from '../../../../src/core/model/identity.ts'

const life = { bootId: 'ab564ffa-7180-4e5d-9c1b-0123456789ab', pidNamespace: '4026531836', pid: 4_711, startTime: '292210' }
const mark = { installation: 'a1b2c3d4e5f6', incarnation: incarnationId(life), resourceId: 'agent.1' }

describe('incarnation id', () => {
  it('contains boot, pid namespace, pid and start time', () => {
    expect(parseIncarnationId(incarnationId(life))).toEqual({
      shortBootId: shortBootId(life.bootId),
      pidNamespace: '4026531836',
      pid: 4_711,
      startTime: '292210',
    })
  })

  it('differs between two processes with the same pid', () => {
    expect(incarnationId({ ...life, startTime: '292211' })).not.toBe(incarnationId(life))
    expect(incarnationId({ ...life, pidNamespace: '1' })).not.toBe(incarnationId(life))
  })

  it.each(['', 'x', '../..', 'ab564ffa7180-4026531836-4711', `${incarnationId(life)}-1`, `${incarnationId(life)}\n`])(
    'parse: %j is not an incarnation id',
    (text) => {
      expect(parseIncarnationId(text)).toBeUndefined()
    },
  )

  it('is a safe directory name', () => {
    expect(isSafeId(incarnationId(life))).toBe(true)
  })
})

describe('environment tag', () => {
  it('parses to the mark it was made from', () => {
    expect(parseEnvironmentTags(environmentTag(mark))).toEqual([mark])
  })

  it('a chained tag parses to the marks of both installations', () => {
    const inner = { ...mark, installation: 'ffffffffffff' }
    expect(parseEnvironmentTags(chainTag(environmentTag(mark), environmentTag(inner)))).toEqual([mark, inner])
    expect(chainTag(undefined, environmentTag(mark))).toBe(environmentTag(mark))
    expect(chainTag('', environmentTag(mark))).toBe(environmentTag(mark))
  })

  it.each(['', ':', 'a/b', 'a/b/c/d', '//', 'a//c', '/b/c'])('parse: %j contains no mark', (text) => {
    expect(parseEnvironmentTags(text)).toEqual([])
  })

  it('parse: an invalid part does not hide valid ones', () => {
    expect(parseEnvironmentTags(`junk:${environmentTag(mark)}:a/b`)).toEqual([mark])
  })

  it('parse does not throw for any text', () => {
    fc.assert(fc.property(fc.string(), (text) => Array.isArray(parseEnvironmentTags(text))))
  })
})

describe('container tag', () => {
  it('names its owner, and its resource id is not safe, so no process tree of this host matches it', () => {
    const [found] = parseEnvironmentTags(containerTag(mark))
    expect(found).toMatchObject({ installation: mark.installation, incarnation: mark.incarnation })
    expect(scopeOfResource(found?.resourceId ?? '')).toBe(scopeOfResource(mark.resourceId))
    expect(isSafeId(found?.resourceId ?? '')).toBe(false)
  })
})

describe('resource and scope ids', () => {
  it('a resource id begins with its scope id', () => {
    expect(scopeOfResource(resourceId('agent', 12))).toBe('agent')
    expect(scopeOfResource(resourceId('a.b.c', 1))).toBe('a.b.c')
    expect(scopeOfResource('no-ordinal')).toBe('')
  })

  it.each(['a', 'A9', 'a.b_c-d', 'x'.repeat(128)])('isSafeId accepts %j', (id) => {
    expect(isSafeId(id)).toBe(true)
  })

  it.each(['', '.', '..', '.hidden', '-flag', 'a..b', 'a/b', 'a b', 'a\0b', 'a\n', 'ä', 'a:b', 'a~b', 'x'.repeat(129)])(
    'isSafeId refuses %j',
    (id) => {
      expect(isSafeId(id)).toBe(false)
    },
  )

  it('a safe id stays one part of a path and of an environment tag', () => {
    const ids = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,40}$/)
    fc.assert(
      fc.property(ids, (id) => {
        fc.pre(isSafeId(id))
        expect(parseEnvironmentTags(environmentTag({ ...mark, resourceId: id }))).toEqual([{ ...mark, resourceId: id }])
        expect(id.split('/')).toEqual([id])
      }),
    )
  })
})
