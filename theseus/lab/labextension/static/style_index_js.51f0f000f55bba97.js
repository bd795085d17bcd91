"use strict";(self.rspackChunktheseus_jupyter=self.rspackChunktheseus_jupyter||[]).push([["style_index_js"],{"./node_modules/css-loader/dist/cjs.js!./style/cells.css"(e,t,r){var o=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),s=r.n(o),n=r("./node_modules/css-loader/dist/runtime/api.js"),l=(r.n(n))()(s());l.push([e.id,`/* The colours are those that JupyterLab gives to the same things in any other language. */

.jp-theseus-cell-plain,
.jp-theseus-cell-mark {
  color: var(--jp-mirror-editor-variable-color, var(--jp-content-font-color1));
  font-weight: normal;
}

.jp-theseus-cell-magic {
  color: var(--jp-mirror-editor-meta-color);
  font-weight: bold;
}

.jp-theseus-cell-job {
  color: var(--jp-mirror-editor-def-color);
  font-weight: normal;
}

.jp-theseus-cell-option,
.jp-theseus-cell-key {
  color: var(--jp-mirror-editor-property-color);
  font-weight: normal;
}

.jp-theseus-cell-string {
  color: var(--jp-mirror-editor-string-color);
  font-weight: normal;
}

.jp-theseus-cell-number {
  color: var(--jp-mirror-editor-number-color);
  font-weight: normal;
}

.jp-theseus-cell-constant {
  color: var(--jp-mirror-editor-keyword-color);
  font-weight: bold;
}

.jp-theseus-cell-reference {
  color: var(--jp-mirror-editor-attribute-color);
  font-weight: normal;
}

.jp-theseus-cell-comment {
  color: var(--jp-mirror-editor-comment-color);
  font-style: italic;
  font-weight: normal;
}

/* Python's own marks lie inside of ours. */
.cm-line [class*='jp-theseus-cell-'] span:not([class*='jp-theseus-cell-']) {
  color: inherit;
  font-style: inherit;
  font-weight: inherit;
}

.jp-theseus-cell-mistake {
  text-decoration: underline wavy var(--jp-error-color1);
  text-decoration-skip-ink: none;
  text-underline-offset: 3px;
}

.jp-theseus-cell-tip {
  background: var(--jp-layout-color1);
  border: var(--jp-border-width) solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  box-shadow: var(--jp-elevation-z2);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  line-height: 1.4;
  max-width: 480px;
  max-height: 200px;
  overflow: auto;
  padding: 6px 10px;
}

.jp-theseus-cell-tip.jp-mod-mistake {
  border-left: 3px solid var(--jp-error-color1);
}

.jp-theseus-cell-message {
  overflow-wrap: anywhere;
  white-space: pre-wrap;
}

.jp-theseus-cell-head {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 10px;
  align-items: baseline;
}

.jp-theseus-cell-type {
  color: var(--jp-ui-font-color2);
}

.jp-theseus-cell-fix {
  background: var(--jp-layout-color2);
  border: var(--jp-border-width) solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  color: var(--jp-ui-font-color1);
  cursor: pointer;
  font: inherit;
  margin-top: 6px;
  padding: 2px 8px;
}

.jp-theseus-cell-fix:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
}
`,""]),r.d(t,{},{A:l})},"./node_modules/css-loader/dist/cjs.js!./style/index.css"(e,t,r){var o=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),s=r.n(o),n=r("./node_modules/css-loader/dist/runtime/api.js"),l=r.n(n),i=r("./node_modules/css-loader/dist/cjs.js!./style/cells.css"),a=l()(s());a.i(i.A),a.push([e.id,`
`,""]),r.d(t,{},{A:a})},"./node_modules/css-loader/dist/runtime/api.js"(e){e.exports=function(e){var t=[];return t.toString=function(){return this.map(function(t){var r="",o=void 0!==t[5];return t[4]&&(r+="@supports (".concat(t[4],") {")),t[2]&&(r+="@media ".concat(t[2]," {")),o&&(r+="@layer".concat(t[5].length>0?" ".concat(t[5]):""," {")),r+=e(t),o&&(r+="}"),t[2]&&(r+="}"),t[4]&&(r+="}"),r}).join("")},t.i=function(e,r,o,s,n){"string"==typeof e&&(e=[[null,e,void 0]]);var l={};if(o)for(var i=0;i<this.length;i++){var a=this[i][0];null!=a&&(l[a]=!0)}for(var d=0;d<e.length;d++){var c=[].concat(e[d]);o&&l[c[0]]||(void 0!==n&&(void 0===c[5]||(c[1]="@layer".concat(c[5].length>0?" ".concat(c[5]):""," {").concat(c[1],"}")),c[5]=n),r&&(c[2]&&(c[1]="@media ".concat(c[2]," {").concat(c[1],"}")),c[2]=r),s&&(c[4]?(c[1]="@supports (".concat(c[4],") {").concat(c[1],"}"),c[4]=s):c[4]="".concat(s)),t.push(c))}},t}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(e){e.exports=function(e){return e[1]}},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(e){var t=[];function r(e){for(var r=-1,o=0;o<t.length;o++)if(t[o].identifier===e){r=o;break}return r}function o(e,o){for(var s={},n=[],l=0;l<e.length;l++){var i=e[l],a=o.base?i[0]+o.base:i[0],d=s[a]||0,c="".concat(a," ").concat(d);s[a]=d+1;var u=r(c),p={css:i[1],media:i[2],sourceMap:i[3],supports:i[4],layer:i[5]};if(-1!==u)t[u].references++,t[u].updater(p);else{var m=function(e,t){var r=t.domAPI(t);return r.update(e),function(t){t?(t.css!==e.css||t.media!==e.media||t.sourceMap!==e.sourceMap||t.supports!==e.supports||t.layer!==e.layer)&&r.update(e=t):r.remove()}}(p,o);o.byIndex=l,t.splice(l,0,{identifier:c,updater:m,references:1})}n.push(c)}return n}e.exports=function(e,s){var n=o(e=e||[],s=s||{});return function(e){e=e||[];for(var l=0;l<n.length;l++){var i=r(n[l]);t[i].references--}for(var a=o(e,s),d=0;d<n.length;d++){var c=r(n[d]);0===t[c].references&&(t[c].updater(),t.splice(c,1))}n=a}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(e){var t={};e.exports=function(e,r){var o=function(e){if(void 0===t[e]){var r=document.querySelector(e);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(e){r=null}t[e]=r}return t[e]}(e);if(!o)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");o.appendChild(r)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(e){e.exports=function(e){var t=document.createElement("style");return e.setAttributes(t,e.attributes),e.insert(t,e.options),t}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(e,t,r){e.exports=function(e){var t=r.nc;t&&e.setAttribute("nonce",t)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var t=e.insertStyleElement(e);return{update:function(r){var o,s,n;o="",r.supports&&(o+="@supports (".concat(r.supports,") {")),r.media&&(o+="@media ".concat(r.media," {")),(s=void 0!==r.layer)&&(o+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),o+=r.css,s&&(o+="}"),r.media&&(o+="}"),r.supports&&(o+="}"),(n=r.sourceMap)&&"u">typeof btoa&&(o+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(n))))," */")),e.styleTagTransform(o,t,e.options)},remove:function(){var e;null===(e=t).parentNode||e.parentNode.removeChild(e)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(e){e.exports=function(e,t){if(t.styleSheet)t.styleSheet.cssText=e;else{for(;t.firstChild;)t.removeChild(t.firstChild);t.appendChild(document.createTextNode(e))}}},"./style/index.js"(e,t,r){var o=r("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),s=r.n(o),n=r("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),l=r.n(n),i=r("./node_modules/style-loader/dist/runtime/insertBySelector.js"),a=r.n(i),d=r("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),c=r.n(d),u=r("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),p=r.n(u),m=r("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),f=r.n(m),h=r("./node_modules/css-loader/dist/cjs.js!./style/index.css"),j={};j.styleTagTransform=f(),j.setAttributes=c(),j.insert=a().bind(null,"head"),j.domAPI=l(),j.insertStyleElement=p(),s()(h.A,j),h.A&&h.A.locals&&h.A.locals}}]);