/** Pages of jobs by id: each is made once while it is there, and anew where making it failed. */
export interface IPages<T> {
  get(id: string): Promise<T>;
  forget(id: string): void;
}

export function pagesBy<T>(make: (id: string) => Promise<T>): IPages<T> {
  const pages = new Map<string, Promise<T>>();
  const forget = (id: string) => {
    pages.delete(id);
  };
  return {
    forget,
    get: id => {
      const page = pages.get(id) ?? make(id);
      pages.set(id, page);
      // Its code is fetched with the first page, which a server that restarts does not give.
      page.catch(() => {
        forget(id);
      });
      return page;
    }
  };
}
