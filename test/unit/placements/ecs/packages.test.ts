import { expect, test, vi } from 'vitest'
import { loadPackages } from '../../../../src/placements/ecs/packages.ts'

vi.mock('@aws-sdk/lib-storage', () => {
  throw new Error("Cannot find package '@aws-sdk/lib-storage'")
})

test('ecs: without the AWS SDK a launch is refused, with the one line that installs it', async () => {
  await expect(loadPackages()).rejects.toMatchObject({
    code: 'launch_refused',
    message:
      'The placement ecs needs the AWS SDK, which is not installed; run "npm install @aws-sdk/client-ecs ' +
      '@aws-sdk/client-elastic-load-balancing-v2 @aws-sdk/client-s3 @aws-sdk/lib-storage" beside Ebb.',
  })
})
