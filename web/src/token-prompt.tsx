import { useEffect, useRef, useState } from 'react'
import { setToken, token } from './api/token.ts'
import { ViewHead } from './pieces/view-head.tsx'

/** Asks for the server's token: the server requires one, and this page has none or a wrong one. */
export function TokenPrompt() {
  const [given, setGiven] = useState('')
  const wasWrong = token() !== undefined
  const field = useRef<HTMLInputElement>(null)
  // The prompt is mounted again after every rejected token, and it is the only control of the page.
  useEffect(() => field.current?.focus(), [])
  return (
    <div className="token">
      <ViewHead title="This server requires a token" documentTitle="Token" />
      <p>
        The server was started with <code>--token</code>. The token is kept in this browser tab only, until you close it.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (given.trim() !== '') setToken(given.trim())
        }}
      >
        <label className="field">
          <span className="field__label">Token</span>
          <input
            ref={field}
            type="password"
            autoComplete="off"
            value={given}
            onChange={(event) => setGiven(event.target.value)}
            aria-invalid={wasWrong}
            aria-describedby={wasWrong ? 'token-problem' : undefined}
          />
          {wasWrong && (
            <span className="field__problem" id="token-problem">
              The server rejected this token. Check the "ebb serve" command line, or server.json in the server's home folder.
            </span>
          )}
        </label>
        <button type="submit" className="button button--primary">
          Use this token
        </button>
      </form>
    </div>
  )
}
