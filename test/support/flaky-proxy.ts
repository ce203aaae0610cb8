import type { AddressInfo } from 'node:net'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** A cable between a client and a server that a test can spoil. It knows no HTTP: only connections, and which way bytes go. */
export class FlakyProxy implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Connections whose first bytes match are spoilt: the call arrives, and its answer never does. */
  loses: RegExp | undefined
  /** As `loses`, but the connection is reset where the answer would have come. */
  cuts: RegExp | undefined
  /** New connections are taken, and nothing ever comes of them. */
  isDeaf = false
  /** Every connection is refused by a reset. */
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

  /** What is connected now is cut. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** What is connected now stays so, and nothing passes any more. */
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
    socket.on('error', () => {})
    socket.once('close', () => this.#sockets.delete(socket))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
