import type { AddressInfo } from 'node:net'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** A TCP proxy whose connections a test can break. It knows nothing of HTTP, only connections and directions. */
export class FlakyProxy implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Requests whose first bytes match reach the server, and their answers are lost. */
  loses: RegExp | undefined
  /** Requests whose first bytes match reach the server, and the connection is reset at the moment of the answer. */
  cuts: RegExp | undefined
  /** While true, new connections are accepted and never answered. */
  isDeaf = false
  /** While true, every new connection is reset. */
  isDown = false
  lost = 0

  private constructor(server: Server, target: URL) {
    this.#server = server
    server.on('connection', (near) => this.#join(near, target))
  }

  static async before(target: string): Promise<FlakyProxy> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new FlakyProxy(server, new URL(target))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Resets all open connections. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** Keeps all open connections open, and stops their traffic. */
  freezeAll(): void {
    for (const socket of this.#sockets) {
      socket.unpipe()
      socket.removeAllListeners('end')
      socket.pause()
    }
  }

  #join(near: Socket, target: URL): void {
    this.#keep(near)
    if (this.isDown) return void near.resetAndDestroy()
    if (this.isDeaf) return
    near.once('data', (first) => {
      const text = first.toString('latin1')
      const far = connect({ host: target.hostname, port: Number(target.port) })
      this.#keep(far)
      far.write(first)
      near.pipe(far)
      near.on('close', () => far.destroy())
      const isLost = this.loses?.test(text)
      const isCut = this.cuts?.test(text)
      if (isLost || isCut) this.lost += 1
      if (isCut) far.once('data', () => near.resetAndDestroy())
      else if (isLost) far.resume()
      else far.pipe(near)
      if (!isLost) far.on('close', () => near.destroy())
    })
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    // The error is ignored: this proxy resets connections on purpose, and each reset is an error of the socket.
    socket.on('error', () => {})
    socket.once('close', () => this.#sockets.delete(socket))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
