// Asks the search of rustdoc's pages, as a browser runs it: `node search.js <doc> <crate> <word>..`
// writes a line for each word: it, a tab, and the best results as paths.
"use strict";
const fs = require("fs");
const path = require("path");

const [folder, crate, ...words] = process.argv.slice(2);
const doc = path.resolve(folder);
const statics = fs.readdirSync(path.join(doc, "static.files"));
const load = name =>
    require(path.join(doc, "static.files", statics.find(file => file.startsWith(`${name}-`))));

// The files that search.js requests from its page.
global.searchState = { isLoading: () => false };
global.nonnull = x => x;
global.nonundef = x => x;

const { Stringdex, RoaringBitmap } = load("stringdex");
const { initSearch } = load("search");

async function main() {
    let callbacks;
    const run = (file, failed) => {
        try {
            new Function(...Object.keys(callbacks), fs.readFileSync(file, "utf8"))(
                ...Object.values(callbacks));
        } catch (error) {
            failed(error);
        }
    };
    const index = path.join(doc, "search.index");
    const { docSearch, DocSearch } = await initSearch(Stringdex, RoaringBitmap, {
        loadRoot: given => {
            callbacks = given;
            run(path.join(index, "root.js"), error => { throw error; });
        },
        loadTreeByHash: hash =>
            run(path.join(index, `${hash}.js`), error => callbacks.err_rn_(hash, error)),
        loadDataByNameAndHash: (name, hash) =>
            run(path.join(index, name, `${hash}.js`), error => callbacks.err_rd_(hash, error)),
    });
    for (const word of words) {
        const query = DocSearch.parseQuery(word);
        const results = await docSearch.execQuery(query, null, crate);
        const found = [];
        for await (const result of results.others) {
            found.push(result.href);
            if (found.length === 3) {
                break;
            }
        }
        console.log(`${word}\t${found.join(" ")}`);
    }
}

main().catch(error => {
    console.error(error);
    process.exit(1);
});
