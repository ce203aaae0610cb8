import { describeZoo } from '../../support/zoo-suite.ts'

describeZoo('subreaper')
describeZoo('scan')
