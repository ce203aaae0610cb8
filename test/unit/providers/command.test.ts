import { describe, expect, it } from 'vitest'
import { command } from '../../../src/providers/command.ts'
import { invoke, itIsAProvider } from './provider-cases.ts'

describe('command', () => {
  itIsAProvider(command, { types: ['assistant', 'result', 'error'], fields: ['content', 'message'] }, { command: ['cat'] })

  it('invoke: runs the configured command with the prompt on its standard input', () => {
    expect(invoke(command, { command: ['sort', '-r'], customArgs: ['-u'] })).toEqual({ argv: ['sort', '-r', '-u'], stdin: 'Fix it.' })
  })

  it.each([[undefined], [[]], [['']]])('invoke: refuses the command %j', (argv) => {
    expect(() => invoke(command, argv ? { command: argv } : {})).toThrow(expect.objectContaining({ code: 'launch_refused' }))
  })

  it('parse: a line never gives a result', () => {
    const line = '{"type":"result","is_error":true}'
    expect(command.parse(line)).toEqual({ messages: [{ type: 'response', content: line, raw: { type: 'result', is_error: true } }] })
  })
})
