// Writes the schema of a Terraform provider, of the resources that a module uses, as JSON for tools/schemaprovider:
//
//   node schemas.mjs PACKAGE-FOLDER PREFIX FILE.tf... >schema.json
//
// The npm packages @cdktf/provider-* are generated from the providers' schemas, and carry them as code: each class can
// list its attributes, and each interface says which are required. They are loaded here with a stand-in for the
// library that they build on. Whether an optional attribute is computed as well is not in them: all are taken to be.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import vm from 'node:vm';

const [folder, prefix, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error('usage: node schemas.mjs PACKAGE-FOLDER PREFIX FILE.tf...');
  process.exit(2);
}

const used = (kind) => {
  const names = new Set();
  for (const file of files) {
    const pattern = new RegExp(`^\\s*(?:${kind})\\s+"(${prefix}_[a-z0-9_]+)"`, 'gm');
    for (const [, name] of readFileSync(file, 'utf8').matchAll(pattern)) names.add(name);
  }
  return [...names].sort();
};
const types = { string: 'string', number: 'number', boolean: 'bool', any: 'dynamic' };
const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());

// The stand-in: values are of no interest, the functions that describe a nested struct are called with nothing.
class Base {
  constructor(...args) { this.args = args; }
}
const describe = (value) => (typeof value === 'function' ? value({}) : {});
const library = new Proxy({
  TerraformResource: Base, TerraformDataSource: Base, TerraformProvider: Base,
  ComplexObject: Base, ComplexList: Base, ComplexMap: Base,
  ComplexComputedList: Base, StringMap: Base, BooleanMap: Base, NumberMap: Base, StringMapList: Base,
  listMapperHcl: (of) => () => describe(of),
  hashMapperHcl: (of) => () => describe(of),
}, { get: (target, name) => target[name] ?? (() => ({})) });

function load(path) {
  const source = readFileSync(join(folder, 'lib', path, 'index.js'), 'utf8').replaceAll(
    /if \(!cdktf\.canInspect\(struct\) \|\| cdktf\.Tokenization\.isResolvable\(struct\)\) \{\s*return struct;\s*\}\s*(if \(cdktf\.isComplexElement\(struct\)\) \{\s*throw [^\n]*\n\s*\})?/g,
    'struct = struct || {};');
  const module = { exports: {} };
  const run = vm.runInThisContext(`(function (exports, require, module) {${source}\n})`, { filename: path });
  run(module.exports, () => library, module);
  const declared = readFileSync(join(folder, 'lib', path, 'index.d.ts'), 'utf8');
  return { exports: module.exports, source, declared };
}

// fields: what a declared interface has, with true for what must be given.
function fields(declared, name) {
  const body = declared.match(new RegExp(`export interface ${name}(?: extends [^{]*)? \\{([\\s\\S]*?)\\n\\}`));
  const found = {};
  for (const [, field, optional] of body?.[1].matchAll(/^\s*readonly (\w+)(\??):/gm) ?? []) found[field] = optional === '';
  return found;
}

function attributeType({ type, storageClassType }) {
  const element = types[storageClassType.replace(/(List|Map)$/, '')] ?? 'dynamic';
  if (type === 'simple') return types[storageClassType] ?? 'dynamic';
  return [type, element];
}

function block(module, attributes, structName) {
  const required = fields(module.declared, structName);
  const result = { attributes: {}, blocks: {} };
  for (const [name, attribute] of Object.entries(attributes)) {
    const must = required[camel(name)] === true;
    if (attribute.isBlock) {
      const struct = attribute.storageClassType.replace(/(List|Map)$/, '');
      const nesting = attribute.type === 'struct' ? 'single' : attribute.type;
      result.blocks[name] = { nesting: nesting === 'set' ? 'set' : 'list', required: must, block: block(module, attribute.value, struct) };
    } else {
      result.attributes[name] = { type: attributeType(attribute), required: must, optional: !must, computed: !must };
    }
  }
  return result;
}

// computed: attributes that only the provider sets.
function computed(module, className) {
  const from = module.source.indexOf(`class ${className} extends`);
  const found = {};
  const getter = /get \w+\(\) \{\s*return (cdktf\.Fn\.tolist\()?this\.get(\w+)Attribute\('(\w+)'\)/g;
  const kinds = { String: 'string', Number: 'number', Boolean: 'bool', List: ['list', 'string'], StringMap: ['map', 'string'], NumberList: ['list', 'number'] };
  for (const [, set, kind, name] of module.source.slice(from).matchAll(getter)) {
    found[name] = { type: set ? ['set', 'string'] : kinds[kind] ?? 'dynamic', computed: true };
  }
  return found;
}

function schema(path, base) {
  const module = load(path);
  const [className, Class] = Object.entries(module.exports).find(([, value]) => typeof value === 'function' && Object.getPrototypeOf(value) === base);
  const result = block(module, new Class({}, 'id', {}).synthesizeHclAttributes(), `${className}Config`);
  result.attributes = { ...computed(module, className), ...result.attributes };
  return result;
}

const path = (name) => name.slice(prefix.length + 1).replaceAll('_', '-');
const all = (names, folderPrefix, base) => Object.fromEntries(names.map((name) => [name, schema(folderPrefix + path(name), base)]));
class Resource extends Base {}
class DataSource extends Base {}
class Provider extends Base {}
Object.assign(library, { TerraformResource: Resource, TerraformDataSource: DataSource, TerraformProvider: Provider });
console.log(JSON.stringify({
  provider: schema('provider', Provider),
  resources: all(used('resource|mock_resource'), '', Resource),
  data_sources: all(used('data|mock_data'), 'data-' + prefix + '-', DataSource),
}, null, 1));
