import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isSameSum, sumOf } from '../../../../src/placements/ecs/checksum.ts'
import { temporaryHome } from '../../../support/home.ts'

/** The checksum that S3 returns for a file: of the file itself when it is one part, otherwise of its parts' checksums. */

const sha256 = (data: Buffer): Buffer => createHash('sha256').update(data).digest()

test.each([
  ['nothing', 0, 1],
  ['less than a part', 9, 1],
  ['a whole part', 10, 1],
  ['a little more', 11, 2],
  ['whole parts', 30, 3],
])('upload checksum: %s', async (_name, size, count) => {
  const data = Buffer.alloc(size, 'abc')
  const file = join(temporaryHome(), 'log')
  writeFileSync(file, data)
  const parts = Array.from({ length: count }, (_, index) => sha256(data.subarray(index * 10, index * 10 + 10)))
  const expected = count === 1 ? sha256(data) : sha256(Buffer.concat(parts))
  const sum = await sumOf(file, 10)
  expect(sum).toEqual({ sizeBytes: size, sha256: expected.toString('base64') })
  expect(isSameSum(sum, { sizeBytes: size, sha256: `${expected.toString('base64')}-${count}` })).toBe(true)
  expect(isSameSum(sum, { sizeBytes: size + 1, sha256: sum.sha256 })).toBe(false)
  expect(isSameSum(sum, { sizeBytes: size })).toBe(false)
})
