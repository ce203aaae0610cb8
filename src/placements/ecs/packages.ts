import { EbbError } from '../../core/model/errors.ts'

/** The AWS SDK is an optional peer dependency. It is loaded only when agents run on AWS. */

interface Packages {
  readonly ecs: typeof import('@aws-sdk/client-ecs')
  readonly balancing: typeof import('@aws-sdk/client-elastic-load-balancing-v2')
  readonly s3: typeof import('@aws-sdk/client-s3')
  readonly storage: typeof import('@aws-sdk/lib-storage')
}

export type { Packages as AwsPackages }

const names = ['@aws-sdk/client-ecs', '@aws-sdk/client-elastic-load-balancing-v2', '@aws-sdk/client-s3', '@aws-sdk/lib-storage']

export async function loadPackages(): Promise<Packages> {
  try {
    const [ecs, balancing, s3, storage] = await Promise.all([
      import('@aws-sdk/client-ecs'),
      import('@aws-sdk/client-elastic-load-balancing-v2'),
      import('@aws-sdk/client-s3'),
      import('@aws-sdk/lib-storage'),
    ])
    return { ecs, balancing, s3, storage }
  } catch (cause) {
    const command = `npm install ${names.join(' ')}`
    throw new EbbError('launch_refused', `The placement ecs needs the AWS SDK, which is not installed; run "${command}" beside Ebb.`, {
      cause,
    })
  }
}
